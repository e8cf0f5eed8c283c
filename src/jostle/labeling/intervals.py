"""Confidence intervals of a random audit that stay valid however often they are computed.

The audit is a uniform sample without replacement of the examples that were never picked for training. For classes the
interval holds every number of errors M among all N whose prior over posterior is below 1 / alpha (Waudby-Smith and
Ramdas, Confidence sequences for sampling without replacement, 2020); for numbers it holds every mean error that no
bettor has grown rich against (Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

ALPHA = 0.05  # the intervals of all rounds together miss with at most this probability
GRID_STEPS = 1000  # steps between 0 and the largest mean error
MAX_STAKE = 0.5  # share of what a bettor may stake at most


@dataclass(frozen=True)
class Interval:
    """Lower and upper bound at some confidence."""

    low: float
    high: float


def round_alpha(round: int, alpha: float = ALPHA) -> float:
    """Return the share of alpha for the round-th model: a new model is a new look, and all shares sum to alpha."""
    return 6 * alpha / (math.pi * round) ** 2


def error_counts(errors: int, audited: int, population: int, alpha: float) -> tuple[int, int]:
    """Return the fewest and the most errors among all examples that the audit leaves possible.

    With a uniform prior on the error rate, prior(M) / posterior(M) is the probability of the outcomes in their order
    averaged over rates, B(errors + 1, rights + 1), over that given M errors, C(N - t, M - errors) / C(N, M).
    """
    if not 0 <= errors <= audited <= population:
        raise ValueError(f"{errors} errors in {audited} audited of {population} examples cannot be")
    counts = np.arange(
        errors, population - (audited - errors) + 1
    )  # (counts,) of all errors; others are impossible
    averaged = betaln(errors + 1, audited - errors + 1)
    given = _log_choose(population - audited, counts - errors) - _log_choose(population, counts)
    possible = counts[averaged - given < math.log(1 / alpha)]
    return int(possible[0]), int(possible[-1])


def accuracy_interval(errors: int, audited: int, population: int, alpha: float) -> Interval:
    """Return bounds on the share of all examples that are predicted right."""
    if not audited:
        return Interval(0.0, 1.0)
    fewest, most = error_counts(errors, audited, population, alpha)
    return Interval(1 - most / population, 1 - fewest / population)


def mean_interval(values: Sequence[float] | NDArray[np.float64], population: int, alpha: float) -> Interval:
    """Return bounds on the mean of all values from 0 to 1; these were drawn in this order without replacement.

    Against every mean m on a grid one bettor stakes on more and one on less, half the capital each; m is excluded when
    either has multiplied the whole by 1 / alpha. Stakes depend on earlier values only.
    """
    drawn = np.asarray(values, dtype=np.float64)
    if len(drawn) and not (drawn.min() >= 0 and drawn.max() <= 1):
        raise ValueError(f"values must lie between 0 and 1; got {drawn.min()} to {drawn.max()}")
    means = np.linspace(0, 1, GRID_STEPS + 1)  # (grid,)
    more, less = np.zeros_like(means), np.zeros_like(means)  # log capital
    alive = np.ones(len(means), dtype=bool)
    for i, (value, stake) in enumerate(zip(drawn, _stakes(drawn, alpha), strict=True)):
        rest = (population * means - drawn[:i].sum()) / (population - i)  # mean of what is left, were m true
        alive &= (rest >= -1e-12) & (rest <= 1 + 1e-12)
        rest = rest.clip(0, 1)
        more += np.log1p(np.minimum(stake, MAX_STAKE / np.maximum(rest, 1e-12)) * (value - rest))
        less += np.log1p(-np.minimum(stake, MAX_STAKE / np.maximum(1 - rest, 1e-12)) * (value - rest))
        alive &= np.maximum(more, less) < math.log(2 / alpha)
    total, left = drawn.sum(), population - len(drawn)
    possible = means[alive & (means * population >= total - 1) & (means * population <= total + left + 1)]
    if not len(possible):  # between two steps of the grid
        middle = float(drawn.mean())
        return Interval(max(0.0, middle - 1 / GRID_STEPS), min(1.0, middle + 1 / GRID_STEPS))
    return Interval(
        max(0.0, float(possible[0]) - 1 / GRID_STEPS), min(1.0, float(possible[-1]) + 1 / GRID_STEPS)
    )


def _stakes(drawn: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return the stake before each value: large when the values so far varied little."""
    count = np.arange(1, len(drawn) + 1)
    means = (0.5 + np.cumsum(drawn)) / (count + 1)
    spread = (0.25 + np.cumsum((drawn - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    return np.sqrt(2 * math.log(2 / alpha) / (before * count * np.log(count + 1)))


def _log_choose(n: int, k: NDArray[np.int64]) -> NDArray[np.float64]:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
