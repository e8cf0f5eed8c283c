"""Statistics over seeds: paired differences, tests, ranks, and labels needed to reach a level."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from jostle.experiments.results import Floats, Results, metric_named
from jostle.utils.names import unknown

__all__ = [
    "Gain",
    "area_ranks",
    "average_ranks",
    "best_first",
    "bootstrap",
    "difference",
    "gains",
    "holm",
    "labels_to_reach",
    "needs_of",
    "paired_curves",
    "penalties",
    "same",
    "shared_seeds",
    "targets",
    "wilcoxon",
    "win_matrix",
]

LEVEL = 0.05  # of every test; intervals cover 1 - LEVEL
ROUNDING = 1e-9  # relative difference below which figures are equal: sums round differently on each processor
FEWEST_SEEDS = 3  # that can make a difference clear: with two, both agree every other time
MANY_SEEDS = 6  # with fewer a signed-rank test cannot reach 0.05, and a bootstrap interval is too narrow


def same(a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Return where `a` and `b` are equal up to rounding, element by element."""
    return np.isclose(a, b, rtol=ROUNDING, atol=1e-12)


def difference(a: Floats, b: Floats) -> Floats:
    """Return a - b, and exactly 0 where they differ by rounding alone."""
    return np.where(same(a, b), 0.0, np.asarray(a) - b)


def shared_seeds(results: Results, *labels: str) -> list[int]:
    """Seeds that all of these `labels` have finished, among `results`."""
    return sorted(set.intersection(*(set(results.seeds(label)) for label in labels)))


def same_seeds(results: Results) -> bool:
    """Whether all strategies have finished the same seeds, so that their means compare."""
    return len({tuple(results.seeds(label)) for label in results.labels}) == 1


def paired_curves(results: Results, metric: str, label: str, reference: str) -> Floats:
    """A strategy's curves minus another's on the seeds that both have, (seeds, points); positive is better.

    Args:
        results: The runs.
        metric: In which metric.
        label: The strategy.
        reference: What is taken off.
    """
    seeds = shared_seeds(results, label, reference)
    mine, theirs = (results.curves(each, metric, seeds) for each in (label, reference))
    return metric_named(metric).sign * difference(mine, theirs)


@dataclass(frozen=True)
class Gain:
    """How much better one strategy's AUBC is than another's, seed by seed; positive is better."""

    label: str
    """The strategy."""
    differences: Floats
    """Of each seed, (seeds,), turned so that positive is better."""
    p_holm: float = float("nan")
    """The p-value corrected for the number of strategies compared."""

    @property
    def mean(self) -> float:
        """The mean difference."""
        return float(self.differences.mean()) if self.differences.size else float("nan")

    @property
    def seeds(self) -> int:
        """Seeds that both strategies have."""
        return int(self.differences.size)

    @property
    def wins(self) -> int:
        """Seeds in which the strategy is ahead."""
        return int((self.differences > 0).sum())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Bootstrap interval of the mean; nan with fewer than two seeds."""
        return bootstrap(self.differences)

    @cached_property
    def p(self) -> float:
        """Of the Wilcoxon signed-rank test, two-sided; nan with fewer than two seeds."""
        return wilcoxon(self.differences)

    @property
    def clear(self) -> bool:
        """Whether it is more than chance: by its interval, or in each of few seeds; two seeds decide nothing."""
        if self.seeds < FEWEST_SEEDS:
            return False
        return self.wins == self.seeds if self.seeds < MANY_SEEDS else self.interval[0] > 0


def gains(results: Results, metric: str, reference: str) -> list[Gain]:
    """Every other strategy against a reference, on the seeds that both have finished.

    Args:
        results: The runs.
        metric: In which metric.
        reference: The label of the strategy that the others are compared with.
    """
    if reference not in results.labels:
        raise unknown("reference", reference, results.labels)
    found = [gain_over(results, metric, label, reference) for label in results.labels if label != reference]
    corrected = holm([each.p for each in found])
    return [replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True)]


def gain_over(results: Results, metric: str, label: str, reference: str) -> Gain:
    """Gain of a `label` over a `reference` in a `metric`, on the seeds that both have among `results`."""
    return Gain(label, paired_areas(results, metric, label, reference))


def paired_areas(results: Results, metric: str, label: str, reference: str) -> Floats:
    """The AUBC differences behind a gain: of `results` in a `metric`, a `label` against a `reference`, (seeds,);
    positive is better.
    """
    seeds = shared_seeds(results, label, reference)
    mine, theirs = (results.aubc(each, metric, seeds) for each in (label, reference))
    return metric_named(metric).sign * difference(mine, theirs)


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
    sample = np.sign(sample) * merge_rounding(np.abs(sample))  # or rounding would decide which ranks tie
    return float(stats.wilcoxon(sample).pvalue) if np.any(sample) else 1.0


def merge_rounding(sizes: Floats) -> Floats:
    """Replace sizes that differ by rounding alone by the smallest of them."""
    order = np.argsort(sizes)
    ranked = sizes[order]
    fresh = np.diff(ranked, prepend=-np.inf) > ROUNDING * ranked[-1]
    merged = np.empty_like(sizes)
    merged[order] = ranked[fresh][np.cumsum(fresh) - 1]
    return merged


def holm(tests: Sequence[float]) -> list[float]:
    """Holm's step-down correction of `tests`; those that could not be made (nan) do not count."""
    p = np.asarray(tests, dtype=np.float64)
    made = np.argsort(p)[: np.isfinite(p).sum()]  # nan comes last
    corrected = np.full(p.shape, np.nan)
    corrected[made] = np.minimum(1, np.maximum.accumulate(p[made] * np.arange(len(made), 0, -1)))
    return corrected.tolist()  # type: ignore[no-any-return]


def average_ranks(results: Results, metric: str, *, first: bool = False) -> dict[str, float]:
    """At every point rank the mean curves (1 is best), then average the ranks over the points. Ties share the mean of
    theirs.

    Args:
        results: The runs.
        metric: In which metric.
        first: Count the first point, reached before any selection, too; the paper leaves it out.
    """
    ranks = pairwise_ranks(
        results, lambda label, seeds: worth(results.mean_curve(label, metric, seeds), metric)
    )
    kept = ranks if first or ranks.shape[1] == 1 else ranks[:, 1:]  # (labels, points)
    return dict(zip(results.labels, kept.mean(axis=1).tolist(), strict=True))


def area_ranks(results: Results, metric: str) -> dict[str, float]:
    """The rank of each label's mean AUBC among `results` in a `metric`, 1 being best."""

    def area(label: str, seeds: Sequence[int]) -> Floats:
        return worth(results.aubc(label, metric, seeds).mean(), metric)

    return dict(zip(results.labels, pairwise_ranks(results, area).tolist(), strict=True))


def best_first(results: Results, metric: str) -> list[str]:
    """Labels of `results` by the rank of their mean AUBC in a `metric`; what seeds leave undecided, by the mean over
    all that they have.
    """
    ranks = area_ranks(results, metric)
    means = {label: float(worth(results.aubc(label, metric).mean(), metric)) for label in results.labels}
    return sorted(results.labels, key=lambda label: (ranks[label], round(-means[label], 9)))


def pairwise_ranks(results: Results, worth_of: Callable[[str, Sequence[int]], Floats]) -> Floats:
    """One more than how many labels are ahead of each, those equal up to rounding counting a half, (labels, ...).

    Two labels are compared on the seeds that both have: where all have the same, these are the usual ranks. Those
    that share none count as beside each other. `worth_of` is of a label on some seeds; more is better.
    """
    ranks = []
    for label in results.labels:
        rank = np.ones_like(worth_of(label, results.seeds(label)))
        for other in results.labels:
            seeds = shared_seeds(results, label, other)
            if other != label:
                mine, theirs = (worth_of(each, seeds) if seeds else np.zeros(()) for each in (label, other))
                rank += np.where(same(mine, theirs), 0.5, theirs > mine)
        ranks.append(rank)
    return np.array(ranks)


def worth(values: Floats | np.floating, metric: str) -> Floats:
    """Values of which more is better, and nan the worst of all."""
    return np.asarray(np.nan_to_num(metric_named(metric).sign * values, nan=-np.inf))


def win_matrix(results: Results, metric: str) -> Floats:
    """How often the row's strategy beats the column's, of `results` in a `metric`: the pairwise penalty matrix of
    BADGE's paper.

    At every point after the first selection a two-sided paired t-test over the seeds decides, and a win adds 1 /
    points; so entries lie between 0 and 1, and a strategy is good if its column is small. A pair that shares fewer than
    two seeds has nan. With two or three seeds only large and steady differences win.
    """
    wins = np.full((len(results.labels), len(results.labels)), np.nan)
    for i, row in enumerate(results.labels):
        for j, column in enumerate(results.labels):
            leads = paired_curves(results, metric, row, column)[:, 1:]
            if i != j and len(leads) > 1 and leads.size:
                wins[i, j] = clearly_positive(leads).mean()
    return wins


def clearly_positive(differences: Floats) -> Floats:
    """Whether each column's mean is above 0 by the paired t-test; equal differences leave no doubt."""
    n = len(differences)
    error = differences.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(differences.mean(axis=0) > stats.t.ppf(1 - LEVEL / 2, n - 1) * error)


def penalties(wins: Floats) -> Floats:
    """The mean of each column of a matrix of `wins`, the diagonal apart: how often a strategy is beaten, (labels,)."""
    beaten, met = np.nansum(wins, axis=0), (~np.isnan(wins)).sum(axis=0)
    return np.where(met > 0, beaten / np.maximum(met, 1), np.nan)


def labels_to_reach(counts: ArrayLike, values: ArrayLike, target: float, *, higher: bool = True) -> float:
    """The labeled count at which a curve first reaches a target, between points by a straight line; nan if it never
    does.

    Args:
        counts: Labeled examples at each point.
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
    higher = metric_named(metric).higher
    low, high = sorted((float(means[:, 0].mean()), float(means.max() if higher else means.min())))
    steps = [base * 10.0**power for power in range(-4, 7) for base in (1.0, 2.0, 2.5, 5.0)]
    step = next((step for step in steps if (high - low) / step < most + 1), steps[-1])
    values = np.arange(np.floor(low / step) + 1, np.floor(high / step) + 1) * step
    return sorted(values.round(6).tolist(), reverse=not higher)


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


@dataclass(frozen=True)
class Times:
    """Costs of a strategy, means over its seeds."""

    label: str
    select: float  # a selection
    best: float  # a selection of the quickest seed: what else a machine does only adds
    middle: float  # the selection of the middle cycle, as the paper's timing table has it
    train: float  # a training
    total: float  # a whole run
    passes: float  # of the candidates through networks for a selection; nan if not counted
    memory: float  # bytes at the highest point of any run; nan if not recorded


def times(results: Results) -> list[Times]:
    """Selection and training time of every strategy."""
    found = []
    for label in results.labels:
        select, train, memory, passes = (
            np.stack([run.costs(field) for run in results.of(label)])  # (seeds, points)
            for field in ("select_seconds", "train_seconds", "peak_memory_bytes", "passes")
        )
        after = select[:, 1:] if select.shape[1] > 1 else select
        counted, known = passes[:, 1:][~np.isnan(passes[:, 1:])], memory[~np.isnan(memory)]
        found.append(
            Times(
                label,
                select=float(after.mean()),
                best=float(after.mean(axis=1).min()),
                middle=float(after[:, after.shape[1] // 2].mean()),
                train=float(train.mean()),
                total=float((np.nan_to_num(select) + train).sum(axis=1).mean()),
                passes=float(counted.mean()) if counted.size else float("nan"),
                memory=float(known.max()) if known.size else float("nan"),
            )
        )
    return found
