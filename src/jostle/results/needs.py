"""What labelling costs: how many labels a curve needs to reach a value."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from jostle.results.curves import Floats, Results
from jostle.results.metrics import metric_named
from jostle.results.pairs import shared_seeds

__all__ = ["labels_to_reach", "needs_of", "targets"]


def labels_to_reach(counts: ArrayLike, values: ArrayLike, target: float, *, higher: bool = True) -> float:
    """The labelled count at which a curve first reaches a target, between points by a straight line; nan if it never
    does.

    Args:
        counts: Labelled examples at each point.
        values: The metric there.
        target: What is to be reached.
        higher: Whether more is better.
    """
    n, sign = np.asarray(counts, dtype=np.float64), 1.0 if higher else -1.0
    a, target = sign * np.asarray(values, dtype=np.float64), sign * target
    if a[0] >= target:
        return float(n[0])
    for i, (here, there) in enumerate(pairwise(a)):
        if there >= target:
            return float(n[i] + (target - here) / (there - here) * (n[i + 1] - n[i]))
    return float("nan")


def targets(results: Results, metric: str, most: int = 6) -> list[float]:
    """Round values of a `metric` between where the mean curves of `results` start and the best that they reach, about
    as many as `most`.
    """
    means = np.stack([results.mean_curve(label, metric) for label in results.labels])
    if not np.isfinite(means).all():
        return []
    low, high = sorted((float(means[:, 0].mean()), float(_best(means, metric_named(metric).higher))))
    steps = [base * 10.0**power for power in range(-4, 7) for base in (1.0, 2.0, 2.5, 5.0)]
    step = next((step for step in steps if (high - low) / step < most + 1), steps[-1])
    values = [k * step for k in range(int(np.floor(low / step)) + 1, int(np.floor(high / step)) + 1)]
    return sorted((round(value, 6) for value in values), reverse=not metric_named(metric).higher)


def _best(values: Floats, higher: bool) -> float:
    return float(values.max() if higher else values.min())


def needs_of(
    results: Results, metric: str, label: str, levels: Sequence[float], seeds: Sequence[int] | None = None
) -> Floats:
    """Labels that a strategy's mean curve needs for each level, (levels,).

    Args:
        results: The runs.
        metric: In which metric.
        label: The strategy.
        levels: What is to be reached.
        seeds: The mean over these; None: over all that it has.
    """
    curve, higher = results.mean_curve(label, metric, seeds), metric_named(metric).higher
    return np.array([labels_to_reach(results.counts, curve, level, higher=higher) for level in levels])


def need_for_last(results: Results, metric: str, label: str, goal: str) -> float:
    """Labels with which one strategy first reaches what another has at the end of its budget, on the seeds of both."""
    seeds = shared_seeds(results, label, goal)
    if not seeds:
        return float("nan")
    last = float(results.mean_curve(goal, metric, seeds)[-1])
    return float(needs_of(results, metric, label, [last], seeds)[0])
