"""Who is ahead of whom: ranks, wins and losses."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from jostle.results.curves import Floats, Results
from jostle.results.metrics import metric_named
from jostle.results.pairs import LEVEL, paired_curves, shared_seeds

__all__ = ["area_ranks", "average_ranks", "best_first", "penalties", "win_matrix"]

Worth = Callable[[str, Sequence[int]], Floats]  # of a label on some seeds; more is better


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
    return sorted(results.labels, key=lambda label: (ranks[label], -means[label]))


def pairwise_ranks(results: Results, worth_of: Worth) -> Floats:
    """One more than how many labels are ahead of each, those beside it counting a half, (labels, ...).

    Two labels are compared on the seeds that both have: where all have the same, these are the usual ranks. Those
    that share none count as beside each other.
    """
    ranks = []
    for label in results.labels:
        rank = np.ones_like(worth_of(label, results.seeds(label)))
        for other in results.labels:
            seeds = shared_seeds(results, label, other)
            if other != label and seeds:
                mine, theirs = worth_of(label, seeds), worth_of(other, seeds)
                rank += (theirs > mine) + 0.5 * (theirs == mine)
            elif other != label:
                rank += 0.5
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
    size = len(results.labels)
    wins = np.full((size, size), np.nan)
    for i, row in enumerate(results.labels):
        for j, column in enumerate(results.labels):
            if i != j:
                wins[i, j] = _share_won(results, metric, row, column)
    return wins


def _share_won(results: Results, metric: str, row: str, column: str) -> float:
    differences = metric_named(metric).sign * paired_curves(results, metric, row, column)[:, 1:]
    if min(differences.shape) == 0 or len(differences) < 2:
        return float("nan")
    return float(clearly_positive(differences).mean())


def clearly_positive(differences: Floats) -> Floats:
    """Whether each column's mean is above 0 by the paired t-test; equal differences leave no doubt."""
    n = len(differences)
    error = differences.std(axis=0, ddof=1) / np.sqrt(n)
    return np.asarray(differences.mean(axis=0) > stats.t.ppf(1 - LEVEL / 2, n - 1) * error)


def penalties(wins: Floats) -> Floats:
    """The mean of each column of a matrix of `wins`, the diagonal apart: how often a strategy is beaten, (labels,)."""
    beaten, met = np.nansum(wins, axis=0), (~np.isnan(wins)).sum(axis=0)
    return np.where(met > 0, beaten / np.maximum(met, 1), np.nan)
