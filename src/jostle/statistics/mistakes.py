"""Probability that an answer is a mistake, given what a model without it predicts.

A model that is right on average contradicts many right answers: those to examples that are hard for it. So a
contradiction alone is no reason to doubt an answer. Two things are fitted together, by maximum likelihood, to
predictions that cross-validation made: how sure of itself the model should be (a temperature), and how often people
slip. A slip is an answer drawn from all others alike. Bayes' rule then gives the probability that an answer is one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EVEN = 0.5  # an answer is doubted when it is more likely a mistake than not
TEMPERATURES = np.exp(np.linspace(-2.0, 1.0, 31))
SLIP_RATES = np.concatenate([[1e-4], np.geomspace(0.002, 0.3, 40)])  # shares of answers
PRIOR_SLIPS, PRIOR_ANSWERS = 0.5, 10.0  # what is believed beforehand: half a slip in ten answers
SMALLEST = 1e-7  # probability; those on disk have 16 bits


def class_mistakes(probabilities: Array, answers: NDArray[np.int64]) -> Array:
    """Return the probability that each answer is a mistake.

    Args:
        probabilities: Of the classes, (m, c), each row made without its answer.
        answers: Column of the class that was answered, (m,).
    """
    logs = np.log(np.maximum(probabilities, SMALLEST))  # (m, c)
    rows, others = np.arange(len(answers)), max(probabilities.shape[1] - 1, 1)
    best: tuple[float, Array] = -np.inf, np.zeros(len(answers))
    for temperature in TEMPERATURES:
        scaled = logs / temperature
        scaled -= scaled.max(1, keepdims=True)
        right = (np.exp(scaled) / np.exp(scaled).sum(1, keepdims=True))[rows, answers]  # (m,)
        best = max(best, _fit_slips(right, (1 - right) / others), key=lambda found: found[0])
    return best[1]


def number_mistakes(predicted: Array, answers: Array) -> Array:
    """Return the probability that each number is a mistake: right ones err by Laplace's law, slips lie anywhere.

    Args:
        predicted: Numbers of a model, (m,), each made without its answer.
        answers: Numbers that were answered, (m,).
    """
    off, span = np.abs(predicted - answers), float(np.ptp(answers))
    typical = float(np.median(off)) / np.log(2)  # the scale of Laplace's law
    if not span or not typical:
        return np.zeros(len(answers))
    best: tuple[float, Array] = -np.inf, np.zeros(len(answers))
    for temperature in TEMPERATURES:
        scale = temperature * typical
        found = _fit_slips(np.exp(-off / scale) / (2 * scale), np.full(len(off), 1 / span))
        best = max(best, found, key=lambda each: each[0])
    return best[1]


def set_mistakes(probabilities: Array, answers: NDArray[np.bool_]) -> Array:
    """Return the probability that each set of classes has a mistake: that of its most doubtful class.

    Args:
        probabilities: That each class is right, (m, c), each row made without its answer.
        answers: Classes that were answered, (m, c).
    """
    columns = [
        class_mistakes(np.column_stack([1 - chance, chance]), said.astype(np.int64))
        for chance, said in zip(probabilities.T, answers.T, strict=True)
    ]
    return np.max(columns, axis=0) if columns else np.zeros(len(answers))


def _fit_slips(right: Array, slipped: Array) -> tuple[float, Array]:
    """Return the best log posterior over slip rates, and the probability of a slip for each answer.

    Args:
        right: Likelihood of each answer of somebody who does not slip, (m,).
        slipped: Its likelihood as a slip, (m,).
    """
    rates = SLIP_RATES[:, None]
    fits = np.log((1 - rates) * right + rates * slipped + 1e-300).sum(1)  # (rates,)
    fits += PRIOR_SLIPS * np.log(SLIP_RATES) + (PRIOR_ANSWERS - PRIOR_SLIPS) * np.log(1 - SLIP_RATES)
    place = int(fits.argmax())
    rate = SLIP_RATES[place]
    return float(fits[place]), rate * slipped / ((1 - rate) * right + rate * slipped + 1e-300)
