"""Point estimates: the chance of an error, calibrated on training answers; the mean error; the error on new data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import beta

from jostle.statistics.confidence import ALPHA, Array, Interval, check_sample

MIN_CHANCE = 1e-4  # chances are kept this far from 0 and 1
SLOPE_PENALTY = 2.0  # pulls the slope toward 1 and the intercept toward 0 where there are few answers
TRAINING_SHARE = 0.8  # of the answers: five folds
MIN_DRAWS = 10  # before predictions correct a sample mean


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
    result: Array = logit((1 - np.asarray(confidence, dtype=np.float64)).clip(MIN_CHANCE, 1 - MIN_CHANCE))
    return result


def estimate_mean(values: ArrayLike, expected: ArrayLike) -> float:
    """Estimate the mean of a finite population from uniform draws, with the expected values as control variate.

    If the draws happen to have larger expected values than the rest, the sample mean is lowered, and the other way
    round. How much is decided by the regression slope of values on expected values, between 0 and 1.

    Args:
        values: (t,) values between 0 and 1 in draw order.
        expected: (N,) expected values: those of the draws in draw order, then those of the rest.
    """
    drawn, controls = check_sample(values, expected)
    count, population = len(drawn), len(controls)
    if not count:
        raise ValueError("an estimate needs at least one draw, got none")
    seen = controls[:count]
    spread = float(seen.var())
    slope = 0.0
    if count >= MIN_DRAWS and spread > 0:
        slope = float(np.clip(((seen - seen.mean()) * (drawn - drawn.mean())).mean() / spread, 0, 1))
    if count == population:
        return float(drawn.mean())
    rest = drawn.mean() + slope * (controls[count:].mean() - seen.mean())  # mean over what was not drawn
    total = drawn.sum() + (population - count) * np.clip(rest, 0, 1)
    return float(total / population)


def estimate_new_data_error(
    picked_errors: ArrayLike, rest_error: float, rest_size: int, *, training_share: float = TRAINING_SHARE
) -> float:
    """Estimate the error on new data from the two parts of the pool.

    The pool is a sample of the data to come. It consists of the examples that trained the model, on which
    cross-validation tells the error, and of the rest, on which the audit tells it. The audit alone would flatter: picks
    take the hard examples out of the rest. Models of cross-validation saw fewer answers, so their errors are scaled
    down as if errors fell like 1 / sqrt(answers).

    Args:
        picked_errors: (m,) errors of the training examples by models that were trained without them.
        rest_error: Estimated mean error of the rest.
        rest_size: Number of examples in the rest.
        training_share: Share of the answers that each model of cross-validation saw: 0.8 for five folds.
    """
    picked = np.asarray(picked_errors, dtype=np.float64)
    if not len(picked) + rest_size:
        raise ValueError("the pool must hold at least one example, got none")
    known = picked.sum() * math.sqrt(training_share)
    return float((known + rest_size * rest_error) / (len(picked) + rest_size))


def new_data_interval(
    picked_errors: ArrayLike,
    rest: Interval,
    rest_size: int,
    *,
    alpha: float = ALPHA,
    training_share: float = TRAINING_SHARE,
) -> Interval:
    """Bound the error on new data like the pool.

    The bounds on the rest give bounds on the pool's mean error, and Clopper-Pearson bounds with alpha / 2 allow for the
    pool being a sample. The upper bound takes the errors of cross-validation as they are. The lower bound allows for
    errors that fall like 1 / answers, which learning curves hardly ever exceed. The interval is no confidence
    sequence: compute it once for each model.

    Args:
        picked_errors: (m,) errors of the training examples by models that were trained without them.
        rest: Bounds on the mean error of the rest, made with alpha / 2.
        rest_size: Number of examples in the rest.
        alpha: Probability of a miss.
        training_share: Share of the answers that each model of cross-validation saw: 0.8 for five folds.
    """
    known, size = float(np.asarray(picked_errors, dtype=np.float64).sum()), rest_size + np.size(picked_errors)
    fewest, most = known * training_share + rest_size * rest.low, known + rest_size * rest.high
    low = float(beta.ppf(alpha / 4, fewest, size - fewest + 1)) if fewest > 0 else 0.0
    high = float(beta.ppf(1 - alpha / 4, most + 1, size - most)) if most < size else 1.0
    return Interval(low, high)
