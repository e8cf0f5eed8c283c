"""Strategies over many folders of runs: ranks, gains, wins, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from jostle.experiments.results import Floats, Results, decimals, metric_named
from jostle.experiments.statistics import (
    LEVEL,
    Times,
    area_ranks,
    clearly_positive,
    holm,
    need_for_last,
    paired_areas,
    shared_seeds,
    times,
    wilcoxon,
)
from jostle.experiments.tables import Cell, Table, duration_cell, mark_best, mean_cells, p_cell, signed_cells
from jostle.utils.names import unknown

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

        Raises:
            ValueError: No folder has the baseline or the metric; only `random` may be missing.
        """
        labels = {label for results in runs.values() for label in results.labels}
        if baseline not in {*labels, "random"}:
            raise unknown("baseline", baseline, labels)
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
        found = {}
        for metric in dict.fromkeys(self.metrics.values()):
            runs = {name: results for name, results in self.runs.items() if self.metrics[name] == metric}
            if 1 < len(runs) < len(self.runs):
                found[metric] = Across.of(runs, metric, self.baseline)
        return found

    def has(self, label: str) -> list[str]:
        """The folders in which the strategy of this `label` shares seeds with the baseline, and so can be compared with
        it.
        """
        return [name for name in self.runs if self.leads(name, label, self.baseline).size]

    def leads(self, name: str, label: str, other: str) -> Floats:
        """How far a strategy is ahead of another, on the seeds that both have, (seeds,).

        Args:
            name: In which folder.
            label: The strategy.
            other: The other.
        """
        return paired_areas(self.runs[name], self.metrics[name], label, other)

    def gains(self, label: str) -> dict[str, float]:
        """The share of the baseline's error that the strategy of this `label` takes away, in each folder that has both.

        The error is the baseline's AUBC, or what it lacks to 100 %: so a tenth means the same for accuracies, for IoU
        and for errors of a regression.
        """
        return {name: float(self.seed_gains(name, label).mean()) for name in self.has(label)}

    def seed_gains(self, name: str, label: str) -> Floats:
        """Shares of the baseline's error that the strategy `label` takes away in the folder `name`, (seeds,)."""
        results, metric = self.runs[name], metric_named(self.metrics[name])
        seeds = shared_seeds(results, label, self.baseline)
        base = float(results.aubc(self.baseline, self.metrics[name], seeds).mean())
        error = 100 - base if metric.percent else abs(base)
        leads = self.leads(name, label, self.baseline)
        return leads / error if error > 0 else np.zeros_like(leads)

    def points(self, label: str) -> dict[str, float]:
        """Return the gains of a `label` in points of AUBC, of folders whose metric is a share."""
        return {
            name: float(self.leads(name, label, self.baseline).mean())
            for name in self.has(label)
            if metric_named(self.metrics[name]).percent
        }

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
        """Test the gains of each of these `labels` in every run: about these folders, not about others like
        them.
        """
        gains = {label: [self.seed_gains(name, label) for name in self.has(label)] for label in labels}
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


def overview_table(across: Across) -> Table:
    """A row for each strategy: its ranks, what it gains over the baseline, its worst case, what it costs."""
    labels, runs = across.labels, across.runs
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in labels]}
    parts = {"rank": across} | {
        f"rank, {metric_named(key).title}": each for key, each in across.parts().items()
    }
    for title, part in parts.items():
        if len(part.everywhere) > 1:
            ranks = [Cell(part.average_ranks.get(label)) for label in labels]
            columns[title] = mark_best(ranks, higher=False)
    compared = any(across.has(label) for label in labels)
    if compared:
        columns |= _gain_columns(across)
    costs: dict[str, list[Times]] = {label: [] for label in labels}
    for results in runs.values():
        for each in times(results):
            costs[each.label].append(each)
    columns["one selection"] = [_seconds([each.select for each in costs[label]]) for label in labels]
    passes = [[each.passes for each in costs[label] if np.isfinite(each.passes)] for label in labels]
    if any(passes):
        columns["passes"] = [Cell(float(np.mean(each)) if each else None, digits=1) for each in passes]
    columns["sets"] = [Cell(len(costs[label]), digits=0) for label in labels]
    base, sets = across.baseline, len(runs)
    note = f"Rank: that of a strategy's AUBC in a set, averaged over the {sets} sets, among strategies that all have."
    if compared:
        note += (
            f" Error less: by what share a strategy's area lowers {base}'s error (its area, or its lack of 100 %), "
            "the mean over sets, and the worst set. Points: the same as AUBC, where the metric is a share. "
            f"Labels saved: for what {base} reaches at its end; negative: those that {base} saves. "
            "Ahead, behind: sets in which a paired t-test over seeds decides (p < 0.05). "
            f"p: signed-rank tests against {base}, corrected by Holm's method, over sets and over all runs; {sets} "
            f"sets cannot give less than {2 / 2**sets:.2g}, and the one over runs is about these sets and no others."
        )
    note += (
        " One selection: geometric mean over sets; passes of a candidate through networks for it: the mean."
    )
    return Table.of(f"{sets} sets of runs", columns, note)


def _gain_columns(across: Across) -> dict[str, Sequence[Cell]]:
    labels, base = across.labels, across.baseline
    others = [label for label in labels if label != base]
    fair = [label in across.everywhere and label != base for label in labels]
    gains = {label: across.gains(label) if label != base else {} for label in labels}
    points = [[*across.points(label).values()] if label != base else [] for label in labels]
    saved = [across.savings(label) if label != base else {} for label in labels]
    worst = [min(each, key=each.__getitem__) if each else None for each in gains.values()]
    lowest = [{name: each[name]} if name else {} for name, each in zip(worst, gains.values(), strict=True)]
    tests, seed_tests = across.tests(others), across.seed_tests(others)

    def shares(values: Iterable[Mapping[str, float]], digits: int = 1) -> list[Cell]:
        means = [100 * float(np.mean([*each.values()])) if each else None for each in values]
        return signed_cells(means, digits)

    in_points = signed_cells([float(np.mean(each)) if each else None for each in points], 2)
    return {
        "error less, %": mark_best(shares(gains.values()), higher=True, fair=fair),
        **({"points": in_points} if any(points) else {}),
        "labels saved, %": shares(saved, 0),
        "worst, %": mark_best(shares(lowest), higher=True, fair=fair),
        "where": [Cell(name or "–") for name in worst],
        "ahead : behind": [_duel(across, label, base) for label in labels],
        "p, sets": [p_cell(tests[label]) if label in tests else Cell(None) for label in labels],
        "p, runs": [p_cell(seed_tests[label]) if label in seed_tests else Cell(None) for label in labels],
    }


def _seconds(costs: Sequence[float]) -> Cell:
    """The geometric mean over folders of a selection's seconds: folders differ by orders of magnitude."""
    known = np.array([seconds for seconds in costs if seconds > 0])
    return duration_cell(float(np.exp(np.log(known).mean()))) if known.size else Cell(None)


def duel_table(across: Across) -> Table:
    """In how many folders the row is clearly ahead of the column, and in how many behind."""
    labels = across.labels
    columns: dict[str, Sequence[Cell]] = {"ahead : behind": [Cell(label) for label in labels]}
    for other in labels:
        columns[other] = [_duel(across, label, other) for label in labels]
    note = "Sets in which the row's AUBC is above the column's, and below it, by a paired t-test over seeds (p < 0.05)."
    return Table.of("Wins and losses over sets", columns, note)


def _duel(across: Across, label: str, other: str) -> Cell:
    if label == other:
        return Cell(None)
    ahead, behind = across.duel(label, other)
    return Cell(float(ahead - behind), shown=f"{ahead} : {behind}")


def gains_table(across: Across) -> Table:
    """Return the gain of every strategy over the baseline in every folder."""
    labels = [label for label in across.labels if label != across.baseline]
    gains = {label: across.gains(label) for label in labels}
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in labels]}
    for name in across.runs:
        found = [100 * gains[label][name] if name in gains[label] else None for label in labels]
        columns[name] = mark_best(signed_cells(found, 1), higher=True)
    note = f"By how many percent the strategy's area lowers {across.baseline}'s error; positive is better."
    return Table.of(f"Gain over {across.baseline} in every set", columns, note)


def areas_table(across: Across) -> Table:
    """AUBC of every strategy in every folder; what a folder has not run is left open."""
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in across.labels]}
    units = {name: metric_named(metric).unit for name, metric in across.metrics.items()}
    one = len({*across.metrics.values()}) == 1
    for name, results in across.runs.items():
        metric = across.metrics[name]
        cells = mean_cells(
            [results.aubc(label, metric) for label in across.labels], decimals(results, metric)
        )
        title = name if one else f"{name}, {units[name]}"
        columns[title] = mark_best(cells, higher=metric_named(metric).higher)
    note = "Mean ± standard deviation over the seeds of each set; curves of different budgets do not compare."
    unit = f", {next(iter(units.values()))}" if one else ""
    return Table.of(f"AUBC{unit}", columns, note)
