"""What many folders of runs say together: ranks over data sets, gains in a unit that they share, wins and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from jostle.experiments.results.curves import Floats, Results, metric_named
from jostle.experiments.results.statistics import (
    LEVEL,
    area_ranks,
    clearly_positive,
    difference,
    holm,
    need_for_last,
    wilcoxon,
)

__all__ = ["Across", "cliques", "critical_difference", "labels_saved"]


@dataclass(frozen=True)
class Across:
    """Several folders of runs, each judged by a metric of its own; strategies go by their labels."""

    runs: Mapping[str, Results]
    """Folder -> its runs."""
    metrics: Mapping[str, str]
    """Folder -> the metric that it is judged by."""
    baseline: str = "random"
    """The strategy that gains are counted against."""

    @classmethod
    def of(cls, runs: Mapping[str, Results], metric: str | None = None, baseline: str = "random") -> Across:
        """Judge folders together.

        Args:
            runs: Folder -> its runs.
            metric: What every folder is judged by; None: its main metric.
            baseline: The strategy that gains are counted against.
        """
        return cls(runs, {name: results.metric(metric) for name, results in runs.items()}, baseline)

    @cached_property
    def labels(self) -> list[str]:
        """Every strategy of any folder, the best average rank first; then, by gain, those that some folder lacks."""
        every = list(dict.fromkeys(label for results in self.runs.values() for label in results.labels))
        partly = [label for label in every if label not in self.everywhere]
        gains = {label: [*self.gains(label).values()] or [-np.inf] for label in partly}
        return [
            *sorted(self.everywhere, key=lambda label: self.average_ranks[label]),
            *sorted(partly, key=lambda label: -float(np.mean(gains[label]))),
        ]

    @cached_property
    def everywhere(self) -> list[str]:
        """The strategies that every folder has, so that their ranks compare."""
        first, *others = self.runs.values()
        return [label for label in first.labels if all(label in each.labels for each in others)]

    @cached_property
    def ranks(self) -> Floats:
        """The rank of each strategy's AUBC among those that all folders have, (folders, strategies)."""
        rows = []
        for name, results in self.runs.items():
            ranks = area_ranks(results.only(self.everywhere), self.metrics[name])
            rows.append([ranks[label] for label in self.everywhere])
        return np.array(rows).reshape(len(self.runs), len(self.everywhere))

    @cached_property
    def average_ranks(self) -> dict[str, float]:
        """The mean over folders of each strategy's rank."""
        return dict(zip(self.everywhere, self.ranks.mean(axis=0).tolist(), strict=True))

    @property
    def friedman(self) -> float:
        """The p of Friedman's test that all strategies are alike; nan with fewer than 3 strategies or 2 folders."""
        if len(self.everywhere) < 3 or len(self.runs) < 2:
            return float("nan")
        if np.ptp(self.ranks) == 0:
            return 1.0
        return float(stats.friedmanchisquare(*self.ranks.T).pvalue)

    @property
    def critical_difference(self) -> float:
        """How far two average ranks must be apart to differ, by Nemenyi's test."""
        return critical_difference(len(self.everywhere), len(self.runs))

    @cached_property
    def cliques(self) -> list[tuple[str, ...]]:
        """The largest groups of strategies that Nemenyi's test cannot tell apart, best first."""
        return cliques(self.average_ranks, self.critical_difference)

    def parts(self) -> dict[str, Across]:
        """The folders that are judged by one metric, for every metric of several folders; none where it is one."""
        by_metric: dict[str, dict[str, Results]] = {}
        for name, results in self.runs.items():
            by_metric.setdefault(self.metrics[name], {})[name] = results
        if len(by_metric) == 1:
            return {}
        several = {metric: runs for metric, runs in by_metric.items() if len(runs) > 1}
        return {metric: Across.of(runs, metric, self.baseline) for metric, runs in several.items()}

    def has(self, label: str) -> list[str]:
        """The folders in which the strategy of this `label` shares seeds with the baseline, and so can be compared with
        it.
        """
        return [name for name in self.runs if self.leads(name, label, self.baseline).size]

    @cached_property
    def areas(self) -> dict[str, dict[str, dict[int, float]]]:
        """AUBC of every run, turned so that more is better: folder -> label -> seed -> area."""
        return {
            name: {label: self._areas(name, label) for label in results.labels}
            for name, results in self.runs.items()
        }

    def _areas(self, name: str, label: str) -> dict[int, float]:
        results, metric = self.runs[name], self.metrics[name]
        turned = metric_named(metric).sign * results.aubc(label, metric)
        return dict(zip(results.seeds(label), turned.tolist(), strict=True))

    def leads(self, name: str, label: str, other: str) -> Floats:
        """How far a strategy is ahead of another, on the seeds that both have, (seeds,).

        Args:
            name: In which folder.
            label: The strategy.
            other: The other.
        """
        mine, theirs = (self.areas[name].get(each, {}) for each in (label, other))
        seeds = sorted(mine.keys() & theirs.keys())
        return difference(
            np.array([mine[seed] for seed in seeds]), np.array([theirs[seed] for seed in seeds])
        )

    def gains(self, label: str) -> dict[str, float]:
        """The share of the baseline's error that the strategy of this `label` takes away, in each folder that has both.

        The error is the baseline's AUBC, or what it lacks to 100 %: so a tenth means the same for accuracies, for IoU
        and for errors of a regression.
        """
        return {name: float(self._gains(name, label).mean()) for name in self.has(label)}

    def _gains(self, name: str, label: str) -> Floats:
        """Of each seed, (seeds,)."""
        theirs = self.areas[name][self.baseline]
        base = float(np.mean([theirs[seed] for seed in theirs.keys() & self.areas[name][label].keys()]))
        error = 100 - base if metric_named(self.metrics[name]).percent else abs(base)
        leads = self.leads(name, label, self.baseline)
        return leads / error if error > 0 else np.zeros_like(leads)

    def points(self, label: str) -> dict[str, float]:
        """The same gains of a `label` as points of AUBC, of folders whose metric is a share."""
        shares = [name for name in self.has(label) if metric_named(self.metrics[name]).percent]
        return {name: float(self.leads(name, label, self.baseline).mean()) for name in shares}

    def savings(self, label: str) -> dict[str, float]:
        """The share of labels that the strategy of this `label` saves against the baseline, in each folder that has
        both.
        """
        return {
            name: labels_saved(self.runs[name], self.metrics[name], label, self.baseline)
            for name in self.has(label)
        }

    def duel(self, label: str, other: str) -> tuple[int, int]:
        """In how many folders the strategy of this `label` is clearly ahead of an `other`, and in how many clearly
        behind.
        """
        signs = [clear_sign(self.leads(name, label, other)) for name in self.runs]
        return sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)

    def tests(self, labels: Sequence[str]) -> dict[str, float]:
        """Wilcoxon's signed-rank test of the gains of each of these `labels` over folders, corrected by Holm for their
        number.
        """
        found = [wilcoxon(list(self.gains(label).values())) for label in labels]
        return dict(zip(labels, holm(found), strict=True))

    def seed_tests(self, labels: Sequence[str]) -> dict[str, float]:
        """The same test of the gains of each of these `labels` in every run: about these folders, not about others like
        them.
        """
        gains = {label: [self._gains(name, label) for name in self.has(label)] for label in labels}
        found = [wilcoxon(np.concatenate([np.empty(0), *gains[label]])) for label in labels]
        return dict(zip(labels, holm(found), strict=True))


def critical_difference(strategies: int, folders: int, level: float = LEVEL) -> float:
    """Nemenyi's: the studentised range over the root of two, times the standard error of a mean rank, of so many
    `strategies` in so many `folders`, at a `level`.
    """
    if strategies < 2 or folders < 1:
        return float("nan")
    q = float(stats.studentized_range.ppf(1 - level, strategies, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(strategies * (strategies + 1) / (6 * folders)))


def cliques(ranks: Mapping[str, float], difference: float) -> list[tuple[str, ...]]:
    """The largest groups of at least two whose `ranks` lie within a `difference`, none inside another."""
    order = sorted(ranks, key=lambda label: ranks[label])
    found: list[tuple[str, ...]] = []
    last = 0
    for first, label in enumerate(order):
        near = [
            place for place in range(first, len(order)) if ranks[order[place]] - ranks[label] <= difference
        ]
        if near[-1] > max(first, last):  # and so not inside the group before
            found.append(tuple(order[first : near[-1] + 1]))
            last = near[-1]
    return found


def labels_saved(results: Results, metric: str, label: str, baseline: str) -> float:
    """The share of labels with which a strategy does without, for what the baseline reaches at its end.

    Negative where the baseline does without them, for what the strategy reaches at its end.

    Args:
        results: The runs.
        metric: In which metric.
        label: The strategy.
        baseline: What it is compared with.
    """

    def needs(name: str, goal: str) -> float:
        return need_for_last(results, metric, name, goal)

    if np.isnan(needs(label, baseline)):
        return needs(baseline, label) / needs(label, label) - 1
    return 1 - needs(label, baseline) / needs(baseline, baseline)


def clear_sign(differences: Floats) -> int:
    """1 or -1 where seeds agree by a two-sided paired t-test; 0 where they do not, or are fewer than two."""
    if len(differences) < 2:
        return 0
    column = differences[:, None]
    return int(clearly_positive(column)[0]) - int(clearly_positive(-column)[0])
