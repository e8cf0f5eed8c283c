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

    def expected_errors(self, confidence: ArrayLike) -> Array:
        """Return the chance, (n,), that predictions with these confidences (n,) are wrong."""
        result: Array = expit(self.intercept + self.slope * _doubt(confidence))
        return result


def calibrate_errors(confidence: ArrayLike, wrong: ArrayLike) -> ErrorCalibration:
    """Fit the chance of being wrong to cross-validated predictions of the training examples.

    Args:
        confidence: (m,) probability of the predicted answer to each training example, by a model that was trained
            without it.
        wrong: (m,) whether that prediction differs from the answer.
    """
    sure, errors = np.asarray(confidence, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    if sure.ndim != 1 or errors.shape != sure.shape:
        raise ValueError(f"confidence and wrong must both be (m,), got {sure.shape} and {errors.shape}")
    doubt = _doubt(sure)

    def loss(parameters: Array) -> tuple[float, Array]:
        intercept, slope = parameters
        score = intercept + slope * doubt
        off = expit(score) - errors
        value = float((np.logaddexp(0, score) - errors * score).sum())
        value += SLOPE_PENALTY / 2 * (intercept**2 + (slope - 1) ** 2)
        pull = SLOPE_PENALTY * np.array([intercept, slope - 1])
        return value, np.array([off.sum(), off @ doubt]) + pull

    found = minimize(loss, np.array([0.0, 1.0]), jac=True, method="L-BFGS-B", bounds=[(-6, 6), (0, 5)])
    return ErrorCalibration(float(found.x[0]), float(found.x[1]))


def _doubt(confidence: ArrayLike) -> Array:
    """Log odds of being wrong."""
    result: Array = logit((1 - np.asarray(confidence, dtype=np.float64)).clip(SMALLEST, 1 - SMALLEST))
    return result
