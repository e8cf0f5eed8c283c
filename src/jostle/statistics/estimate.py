"""Point estimates: the chance of an error, the mean error, the error on new data, the labels that picking saved.

What picking saved: the audit is a random sample with answers. Models trained on k of its examples and tested on the
others show the error of k random labels. The errors of the models of picking are known on the same examples. The number
of picks at which picking reached that error is compared with k. Nothing is extrapolated: k is at most what the audit
allows to train on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import beta

from jostle.statistics.confidence import ALPHA, Array, Interval, check_sample

MIN_CHANCE = 1e-4  # chances are kept this far from 0 and 1
SLOPE_PENALTY = 2.0  # pulls the slope toward 1 and the intercept toward 0 where there are few answers
TRAINING_SHARE = 0.8  # of the answers that each model of cross-validation saw: five folds
MIN_DRAWS = 10  # before predictions correct a sample mean
MIN_AUDITED = 60  # below this the estimate is too noisy to show
TRAIN_SHARE = 0.7  # of the audited examples that a shadow model learns from
SPLITS = 30
RESAMPLES = 1000
WIDENING = 1.5  # of the interval, in logarithms: other training sets would give other curves
TrainAndPredict = Callable[[Array, NDArray[np.int64], Array], NDArray[np.int64]]


@dataclass(frozen=True)
class ErrorCalibration:
    """Platt scaling of the chance of being wrong: expit(intercept + slope * logit(1 - confidence))."""

    intercept: float = 0.0
    slope: float = 1.0

    def expected_errors(self, confidence: ArrayLike) -> Array:
        """Return the chance, (n,), that predictions with these confidences (n,) are wrong."""
        return np.asarray(expit(self.intercept + self.slope * _doubt(confidence)))


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
    return np.asarray(logit((1 - np.asarray(confidence, dtype=np.float64)).clip(MIN_CHANCE, 1 - MIN_CHANCE)))


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


def estimate_new_data_error(picked_errors: ArrayLike, rest_error: float, rest_size: int) -> float:
    """Estimate the error on new data from the two parts of the pool.

    The pool is a sample of the data to come. It consists of the examples that trained the model, on which
    cross-validation tells the error, and of the rest, on which the audit tells it. The audit alone would flatter: picks
    take the hard examples out of the rest. Models of cross-validation saw fewer answers, so their errors are scaled
    down as if errors fell like 1 / sqrt(answers).

    Args:
        picked_errors: (m,) errors of the training examples by models that were trained without them.
        rest_error: Estimated mean error of the rest.
        rest_size: Number of examples in the rest.
    """
    picked = np.asarray(picked_errors, dtype=np.float64)
    if not len(picked) + rest_size:
        raise ValueError("the pool must hold at least one example, got none")
    known = picked.sum() * math.sqrt(TRAINING_SHARE)
    return float((known + rest_size * rest_error) / (len(picked) + rest_size))


def new_data_interval(
    picked_errors: ArrayLike, rest: Interval, rest_size: int, *, alpha: float = ALPHA
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
    """
    known, size = float(np.asarray(picked_errors, dtype=np.float64).sum()), rest_size + np.size(picked_errors)
    fewest, most = known * TRAINING_SHARE + rest_size * rest.low, known + rest_size * rest.high
    low = float(beta.ppf(alpha / 4, fewest, size - fewest + 1)) if fewest > 0 else 0.0
    high = float(beta.ppf(1 - alpha / 4, most + 1, size - most)) if most < size else 1.0
    return Interval(low, high)


@dataclass(frozen=True)
class Savings:
    """Labels saved by picking; an estimate.

    Attributes:
        random_labels: Number of random labels that is compared with.
        picks: Estimated picks that reach the same error.
        low: Lower bound of the picks in a bootstrap interval.
        high: Upper bound; infinite where some resamples never reach the error.
    """

    random_labels: int
    picks: float
    low: float
    high: float

    @property
    def saved(self) -> float:
        """Labels saved; negative where picking needed more."""
        return self.random_labels - self.picks


def shadow_errors(
    features: ArrayLike,
    labels: ArrayLike,
    train: TrainAndPredict,
    size: int,
    *,
    splits: int = SPLITS,
    seed: int = 0,
) -> Array:
    """Return the mean error, (t,), of each audited example by models trained on `size` other audited ones.

    Args:
        features: (t, d) rows of the audited examples.
        labels: (t,) their classes.
        train: Takes rows and classes to train on and rows to predict, and returns predicted classes.
        size: Number of examples to train on.
        splits: Number of random splits.
        seed: Seed of the splits.
    """
    rows, classes = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if not 1 <= size < len(classes):
        raise ValueError(f"size must be between 1 and {len(classes) - 1}, got {size}")
    rng = np.random.default_rng(seed)
    wrong, tested = np.zeros(len(classes)), np.zeros(len(classes))
    for _ in range(splits):
        order = rng.permutation(len(classes))
        inside, outside = order[:size], order[size:]
        wrong[outside] += train(rows[inside], classes[inside], rows[outside]) != classes[outside]
        tested[outside] += 1
    mean: Array = np.divide(wrong, tested, out=np.full(len(classes), np.nan), where=tested > 0)
    return mean


def estimate_savings(
    shadow: ArrayLike,
    random_labels: int,
    picked_errors: ArrayLike,
    picked_sizes: ArrayLike,
    *,
    alpha: float = ALPHA,
    seed: int = 0,
) -> Savings:
    """Estimate the picks that reach the error of random labels, with a bootstrap interval over audited examples.

    The bootstrap knows the luck of the audited examples and not that of the training sets, so its interval is widened.

    Args:
        shadow: (t,) mean error of each audited example under `random_labels` random labels; NaN where not tested.
        random_labels: Labels of each shadow model.
        picked_errors: (models, t) errors of the models of picking on the same examples.
        picked_sizes: (models,) picks that each was trained on, ascending.
        alpha: Probability of a miss.
        seed: Seed of the bootstrap.
    """
    random, picked = np.asarray(shadow, dtype=np.float64), np.asarray(picked_errors, dtype=np.float64)
    sizes = np.asarray(picked_sizes, dtype=np.float64)
    if picked.shape != (len(sizes), len(random)):
        raise ValueError(
            f"picked_errors must be {(len(sizes), len(random))}: models by examples, got {picked.shape}"
        )
    known = ~np.isnan(random)
    random, picked = random[known], picked[:, known]
    rng = np.random.default_rng(seed)
    shares = rng.multinomial(len(random), np.full(len(random), 1 / len(random)), RESAMPLES) / len(random)
    goals, curves = shares @ random, shares @ picked.T  # (resamples,), (resamples, models)
    resampled = [_picks_needed(float(goal), curve, sizes) for goal, curve in zip(goals, curves, strict=True)]
    low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2], method="nearest")
    picks = _picks_needed(float(random.mean()), picked.mean(axis=1), sizes)
    if math.isfinite(picks):
        low, high = (picks * (bound / picks) ** WIDENING for bound in (low, high))
    return Savings(random_labels, picks, float(low), float(high))


def _picks_needed(error: float, curve: Array, sizes: Array) -> float:
    """Picks at which the falling part of a curve first reaches an error; linear between models."""
    best = np.minimum.accumulate(curve)
    reached = np.flatnonzero(best <= error)
    if not len(reached):
        return float("inf")
    last = int(reached[0]) + 1
    return float(np.interp(-error, -best[:last], sizes[:last]))
