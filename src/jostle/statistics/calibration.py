"""A model's chance of being wrong, calibrated on training answers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logit

from jostle.statistics.confidence import Array

SMALLEST = 1e-4  # chances are kept this far from 0 and 1
SLOPE_PENALTY = 2.0  # pulls the slope toward 1 and the intercept toward 0 where there are few answers


@dataclass(frozen=True)
class ErrorCalibration:
    """Platt scaling of the chance of being wrong: expit(intercept + slope * logit(1 - confidence))."""

    intercept: float = 0.0
    slope: float = 1.0

    def expected_errors(self, probabilities: ArrayLike) -> Array:
        """Return the chance, (n,), that the most likely class of each row of probabilities (n, c) is wrong."""
        result: Array = expit(self.intercept + self.slope * _doubt(probabilities))
        return result


def calibrate_errors(held_out: ArrayLike, labels: ArrayLike) -> ErrorCalibration:
    """Fit the chance of being wrong to cross-validated predictions of the training examples.

    Args:
        held_out: (m, c) probabilities of each training example by a model that was trained without it.
        labels: (m,) column of the class that was answered.
    """
    probabilities, classes = np.asarray(held_out, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if probabilities.ndim != 2 or classes.shape != probabilities.shape[:1]:
        raise ValueError(
            f"held_out must be (m, c) and labels (m,), got {probabilities.shape} and {classes.shape}"
        )
    wrong = (probabilities.argmax(axis=1) != classes).astype(np.float64)
    doubt = _doubt(probabilities)

    def loss(parameters: Array) -> tuple[float, Array]:
        intercept, slope = parameters
        score = intercept + slope * doubt
        off = expit(score) - wrong
        value = float((np.logaddexp(0, score) - wrong * score).sum())
        value += SLOPE_PENALTY / 2 * (intercept**2 + (slope - 1) ** 2)
        pull = SLOPE_PENALTY * np.array([intercept, slope - 1])
        return value, np.array([off.sum(), off @ doubt]) + pull

    found = minimize(loss, np.array([0.0, 1.0]), jac=True, method="L-BFGS-B", bounds=[(-6, 6), (0, 5)])
    return ErrorCalibration(float(found.x[0]), float(found.x[1]))


def _doubt(probabilities: ArrayLike) -> Array:
    """Log odds of not being the most likely class."""
    rows = np.asarray(probabilities, dtype=np.float64)
    result: Array = logit((1 - rows.max(axis=1)).clip(SMALLEST, 1 - SMALLEST))
    return result
