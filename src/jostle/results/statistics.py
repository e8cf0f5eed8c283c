"""What the curves allow to say: ranks, paired differences, wins and losses, labels saved, time.

Seeds pair strategies (same initial labels, same weights), so every comparison is made seed by seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from jostle.results.curves import Floats, Results, aubc, describe

LEVEL = 0.05  # of every test; intervals cover 1 - LEVEL


def average_ranks(results: Results, metric: str, *, first: bool = False) -> dict[str, float]:
    """At every point rank the mean curves (1 is best), then average the ranks over the points.

    As in the paper the first point, reached before any selection, is left out; `first=True` counts it too.
    Ties share the mean of their ranks.
    """
    means = np.stack([results.mean_curve(label, metric) for label in results.labels])  # (labels, points)
    worst_first = np.nan_to_num(describe(metric).sign * means, nan=-np.inf)
    ranks = stats.rankdata(-worst_first, axis=0)
    kept = ranks if first or ranks.shape[1] == 1 else ranks[:, 1:]
    return dict(zip(results.labels, kept.mean(axis=1).tolist(), strict=True))


def shared_seeds(results: Results, *labels: str) -> list[int]:
    """Seeds that all of these labels have finished."""
    return sorted(set.intersection(*(set(results.seeds(label)) for label in labels)))


def paired_curves(results: Results, metric: str, label: str, reference: str) -> Floats:
    """The label's curves minus the reference's on the seeds that both have, (seeds, points)."""
    seeds = shared_seeds(results, label, reference)
    if not seeds:
        return np.empty((0, len(results.counts)))
    return results.curves(label, metric, seeds) - results.curves(reference, metric, seeds)


@dataclass(frozen=True)
class Gain:
    """How much better one strategy's AUBC is than another's, seed by seed; positive is better."""

    label: str
    differences: Floats  # (seeds,), turned so that positive is better
    low: float  # of the bootstrap interval of the mean; nan with fewer than two seeds
    high: float
    p: float  # Wilcoxon signed-rank, two-sided; nan with fewer than two seeds
    p_holm: float  # the same, corrected for the number of strategies compared

    @property
    def mean(self) -> float:
        """The mean difference."""
        return float(self.differences.mean()) if self.differences.size else float("nan")

    @property
    def wins(self) -> int:
        """Seeds in which the strategy is ahead."""
        return int((self.differences > 0).sum())


def gains(results: Results, metric: str, reference: str, *, seed: int = 0) -> list[Gain]:
    """Every other strategy against the reference, on the seeds that both have finished."""
    if reference not in results.labels:
        raise ValueError(f"no finished run of {reference!r}; there are {', '.join(results.labels)}")
    others = [label for label in results.labels if label != reference]
    differences = [paired_areas(results, metric, label, reference) for label in others]
    intervals = [bootstrap(each, seed=seed) for each in differences]
    tests = [wilcoxon(each) for each in differences]
    rows = zip(others, differences, intervals, tests, holm(tests), strict=True)
    return [Gain(label, each, *interval, p, corrected) for label, each, interval, p, corrected in rows]


def paired_areas(results: Results, metric: str, label: str, reference: str) -> Floats:
    """The AUBC differences behind a gain, (seeds,); positive is better."""
    curves = describe(metric).sign * paired_curves(results, metric, label, reference)
    return np.array([aubc(results.counts, curve) for curve in curves])


def bootstrap(values: ArrayLike, *, seed: int = 0, resamples: int = 10_000) -> tuple[float, float]:
    """Percentile interval of the mean, from resampled seeds; too narrow when the seeds are few."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return float("nan"), float("nan")
    draws = np.random.default_rng(seed).integers(sample.size, size=(resamples, sample.size))
    low, high = np.quantile(sample[draws].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p of the signed-rank test; with n seeds it cannot fall below 2 / 2**n."""
    sample = np.asarray(differences, dtype=np.float64)
    if sample.size < 2 or np.isnan(sample).any():
        return float("nan")
    return float(stats.wilcoxon(sample).pvalue) if np.any(sample) else 1.0


def holm(tests: Sequence[float]) -> list[float]:
    """Holm's step-down correction; tests that could not be made (nan) do not count."""
    corrected = [float("nan")] * len(tests)
    made = sorted((p, i) for i, p in enumerate(tests) if not np.isnan(p))
    highest = 0.0
    for step, (p, i) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - step) * p))
        corrected[i] = highest
    return corrected


def win_matrix(results: Results, metric: str) -> Floats:
    """How often the row's strategy beats the column's: the pairwise penalty matrix of BADGE's paper.

    At every point after the first selection a two-sided paired t-test over the seeds decides, and a win adds
    1 / points; so entries lie between 0 and 1, and a strategy is good if its column is small. A pair that
    shares fewer than two seeds has nan. With two or three seeds only large and steady differences win.
    """
    size = len(results.labels)
    wins = np.full((size, size), np.nan)
    for i, row in enumerate(results.labels):
        for j, column in enumerate(results.labels):
            if i != j:
                wins[i, j] = _share_won(results, metric, row, column)
    return wins


def _share_won(results: Results, metric: str, row: str, column: str) -> float:
    differences = describe(metric).sign * paired_curves(results, metric, row, column)[:, 1:]
    if min(differences.shape) == 0 or len(differences) < 2:
        return float("nan")
    return float(_clearly_positive(differences).mean())


def _clearly_positive(differences: Floats) -> Floats:
    """Whether each column's mean is above 0 by the paired t-test; equal differences leave no doubt."""
    n = len(differences)
    error = differences.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(differences.mean(axis=0) > stats.t.ppf(1 - LEVEL / 2, n - 1) * error)


def penalties(wins: Floats) -> Floats:
    """The mean of each column, the diagonal apart: how often a strategy is beaten, (labels,)."""
    beaten, met = np.nansum(wins, axis=0), (~np.isnan(wins)).sum(axis=0)
    return np.where(met > 0, beaten / np.maximum(met, 1), np.nan)


def labels_to_reach(counts: ArrayLike, values: ArrayLike, target: float, *, higher: bool = True) -> float:
    """The labelled count at which a curve first reaches the target, between points by a straight line.

    nan if it never does; the first count if it starts there.
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
    """Round values of the metric between where the mean curves start and the best that they reach."""
    means = np.stack([results.mean_curve(label, metric) for label in results.labels])
    if not np.isfinite(means).all():
        return []
    low, high = sorted((float(means[:, 0].mean()), float(_best(means, describe(metric).higher))))
    steps = [base * 10.0**power for power in range(-4, 7) for base in (1.0, 2.0, 2.5, 5.0)]
    step = next((step for step in steps if (high - low) / step < most + 1), steps[-1])
    values = [k * step for k in range(int(np.floor(low / step)) + 1, int(np.floor(high / step)) + 1)]
    return sorted((round(value, 6) for value in values), reverse=not describe(metric).higher)


def _best(values: Floats, higher: bool) -> float:
    return float(values.max() if higher else values.min())


def label_needs(results: Results, metric: str, levels: Sequence[float]) -> Floats:
    """Labels that each strategy's mean curve needs for each level, (labels, levels)."""
    higher = describe(metric).higher
    means = [results.mean_curve(label, metric) for label in results.labels]
    return np.array(
        [[labels_to_reach(results.counts, m, level, higher=higher) for level in levels] for m in means]
    ).reshape(len(means), len(levels))


@dataclass(frozen=True)
class Times:
    """Seconds of a strategy, means over its seeds."""

    label: str
    select: float  # a selection
    best: float  # a selection of the quickest seed: what else a machine does only adds
    middle: float  # the selection of the middle cycle, as the paper's timing table has it
    train: float  # a training
    total: float  # a whole run
    memory: float  # bytes at the highest point of any run; nan if not recorded


def times(results: Results) -> list[Times]:
    """Selection and training time of every strategy."""
    return [_times(results, label) for label in results.labels]


def _times(results: Results, label: str) -> Times:
    runs = results.of(label)
    select = np.stack([run.select_seconds for run in runs])  # (seeds, points)
    train = np.stack([run.train_seconds for run in runs])
    memory = np.stack([run.peak_memory for run in runs])
    after = select[:, 1:] if select.shape[1] > 1 else select
    return Times(
        label,
        select=float(after.mean()),
        best=float(after.mean(axis=1).min()),
        middle=float(after[:, after.shape[1] // 2].mean()),
        train=float(train.mean()),
        total=float((np.nan_to_num(select) + train).sum(axis=1).mean()),
        memory=float("nan") if np.isnan(memory).all() else float(np.nanmax(memory)),
    )
