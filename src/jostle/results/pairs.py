"""Strategies compared seed by seed: seeds pair them, for they share initial labels and weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from jostle.results.curves import Floats, Results, aubc
from jostle.results.metrics import metric_named

__all__ = ["Gain", "bootstrap", "gains", "holm", "paired_curves", "shared_seeds", "wilcoxon"]

LEVEL = 0.05  # of every test; intervals cover 1 - LEVEL


def shared_seeds(results: Results, *labels: str) -> list[int]:
    """Seeds that all of these `labels` have finished, among `results`."""
    return sorted(set.intersection(*(set(results.seeds(label)) for label in labels)))


def paired_curves(results: Results, metric: str, label: str, reference: str) -> Floats:
    """A strategy's curves minus another's on the seeds that both have, (seeds, points).

    Args:
        results: The runs.
        metric: In which metric.
        label: The strategy.
        reference: What is taken off.
    """
    seeds = shared_seeds(results, label, reference)
    if not seeds:
        return np.empty((0, len(results.counts)))
    return results.curves(label, metric, seeds) - results.curves(reference, metric, seeds)


@dataclass(frozen=True)
class Gain:
    """How much better one strategy's AUBC is than another's, seed by seed; positive is better."""

    label: str
    """The strategy."""
    differences: Floats
    """Of each seed, (seeds,), turned so that positive is better."""
    low: float
    """Where the bootstrap interval of the mean begins; nan with fewer than two seeds."""
    high: float
    """Where it ends."""
    p: float
    """Of the Wilcoxon signed-rank test, two-sided; nan with fewer than two seeds."""
    p_holm: float
    """The same, corrected for the number of strategies compared."""

    @property
    def mean(self) -> float:
        """The mean difference."""
        return float(self.differences.mean()) if self.differences.size else float("nan")

    @property
    def wins(self) -> int:
        """Seeds in which the strategy is ahead."""
        return int((self.differences > 0).sum())


def gains(results: Results, metric: str, reference: str, *, seed: int = 0) -> list[Gain]:
    """Every other strategy against a reference, on the seeds that both have finished.

    Args:
        results: The runs.
        metric: In which metric.
        reference: The label of the strategy that the others are compared with.
        seed: What the resampling for intervals follows from.
    """
    if reference not in results.labels:
        raise ValueError(f"no finished run of {reference!r}; there are {', '.join(results.labels)}")
    others = [label for label in results.labels if label != reference]
    differences = [paired_areas(results, metric, label, reference) for label in others]
    intervals = [bootstrap(each, seed=seed) for each in differences]
    tests = [wilcoxon(each) for each in differences]
    rows = zip(others, differences, intervals, tests, holm(tests), strict=True)
    return [Gain(label, each, *interval, p, corrected) for label, each, interval, p, corrected in rows]


def paired_areas(results: Results, metric: str, label: str, reference: str) -> Floats:
    """The AUBC differences behind a gain: of `results` in a `metric`, a `label` against a `reference`, (seeds,);
    positive is better.
    """
    curves = metric_named(metric).sign * paired_curves(results, metric, label, reference)
    return np.array([aubc(results.counts, curve) for curve in curves])


def bootstrap(values: ArrayLike, *, seed: int = 0, resamples: int = 10_000) -> tuple[float, float]:
    """Percentile interval of the mean, from resampled seeds; too narrow when the seeds are few.

    Args:
        values: One for each seed.
        seed: What the draws follow from.
        resamples: How often seeds are drawn.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return float("nan"), float("nan")
    draws = np.random.default_rng(seed).integers(sample.size, size=(resamples, sample.size))
    low, high = np.quantile(sample[draws].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p of the signed-rank test of `differences`; with n seeds it cannot fall below 2 / 2**n."""
    sample = np.asarray(differences, dtype=np.float64)
    if sample.size < 2 or np.isnan(sample).any():
        return float("nan")
    return float(stats.wilcoxon(sample).pvalue) if np.any(sample) else 1.0


def holm(tests: Sequence[float]) -> list[float]:
    """Holm's step-down correction of `tests`; those that could not be made (nan) do not count."""
    corrected = [float("nan")] * len(tests)
    made = sorted((p, i) for i, p in enumerate(tests) if not np.isnan(p))
    highest = 0.0
    for step, (p, i) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - step) * p))
        corrected[i] = highest
    return corrected
