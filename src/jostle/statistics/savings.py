"""Estimate of what picking saved: the labels that random picking would have needed.

The audit is a random sample with answers. Models trained on k of its examples and tested on the others show the error
of k random labels. The errors of the models of picking are known on the same examples. The number of picks at which
picking reached that error is compared with k. Nothing is extrapolated: k is at most what the audit allows to train on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jostle.statistics.confidence import ALPHA, Array

MIN_AUDITED = 60  # below this the estimate is too noisy to show
TRAIN_SHARE = 0.7  # of the audited examples that a shadow model learns from
SPLITS = 30
RESAMPLES = 1000
WIDENING = 1.5  # of the interval, in logarithms: other training sets would give other curves

TrainAndPredict = Callable[[Array, NDArray[np.int64], Array], NDArray[np.int64]]


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

    @property
    def share(self) -> float:
        """Share of the labels that was saved."""
        return self.saved / self.random_labels


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
    place = int(reached[0])
    if place == 0:
        return float(sizes[0])
    gap = best[place - 1] - best[place]
    part = (best[place - 1] - error) / gap
    return float(sizes[place - 1] + part * (sizes[place] - sizes[place - 1]))
