"""The tables of one folder of runs."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from jostle.plumbing.names import look_up
from jostle.results.curves import Floats, Results
from jostle.results.metrics import metric_named
from jostle.results.needs import needs_of
from jostle.results.pairs import Gain, shared_seeds
from jostle.results.ranks import average_ranks, best_first, penalties
from jostle.results.tables import Cell, Table, duration, mark_best, p_cell
from jostle.results.times import Times

MANY_SEEDS = 6  # with fewer a signed-rank test cannot reach 0.05, and a bootstrap interval is too narrow


def aubc_table(results: Results, metric: str) -> Table:
    """AUBC of every metric, mean ± std over seeds, with average ranks; the best strategy first."""
    order, main = best_first(results, metric), metric_named(metric)
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for name in (metric, *(other for other in results.metrics if other != metric)):
        areas = mean_cells([results.aubc(label, name) for label in order], decimals(results, name))
        columns[f"AUBC, {metric_named(name).unit}"] = _marked(
            results, order, areas, metric_named(name).higher
        )
    ends = mean_cells([results.curves(label, metric)[:, -1] for label in order], decimals(results, metric))
    columns[f"last {main.unit}"] = _marked(results, order, ends, main.higher)
    for title, first in (("rank", False), ("rank, all points", True)):
        ranks = average_ranks(results, metric, first=first)
        columns[title] = _marked(results, order, [Cell(ranks[label]) for label in order], higher=False)
    columns["seeds"] = [Cell(len(results.of(label)), digits=0) for label in order]
    return Table.of(f"AUBC and average ranks, {results.name}", columns, _aubc_note(results, metric))


def _aubc_note(results: Results, metric: str) -> str:
    span, main = f"{results.counts[0]} to {results.counts[-1]} labels", metric_named(metric)
    note = (
        f"Area under the budget curve from {span}, mean ± standard deviation (n − 1) over seeds. "
        "The rank is that of the mean curves at each point, averaged over the points after the first "
        "selection, and over all points."
    )
    if not main.higher:
        note += f" A smaller {main.title} is better."
    if not same_seeds(results):
        note += (
            " Two strategies are ranked, and put in order, by the seeds that both have; means are over all."
        )
    return note


def same_seeds(results: Results) -> bool:
    """Whether all strategies have finished the same seeds, so that their means compare."""
    return len(_seed_groups(results)) == 1


def _seed_groups(results: Results) -> Counter[tuple[int, ...]]:
    return Counter(tuple(results.seeds(label)) for label in results.labels)


def _marked(results: Results, order: Sequence[str], cells: Sequence[Cell], higher: bool) -> list[Cell]:
    """The best cell marked, among the strategies that have the seeds that most have: others may be lucky."""
    usual = _seed_groups(results).most_common(1)[0][0]
    fair = [tuple(results.seeds(label)) == usual for label in order]
    best = iter(mark_best([cell for cell, ok in zip(cells, fair, strict=True) if ok], higher=higher))
    return [next(best) if ok else cell for cell, ok in zip(cells, fair, strict=True)]


def mean_cells(samples: Sequence[Floats], digits: int) -> list[Cell]:
    """Mean ± std of each sample; a single value has no spread."""
    means = [float(sample.mean()) if sample.size else None for sample in samples]
    stds = [float(sample.std(ddof=1)) if sample.size > 1 else None for sample in samples]
    return [Cell(mean, std, digits) for mean, std in zip(means, stds, strict=True)]


def decimals(results: Results, metric: str) -> int:
    """Decimals worth showing: 2 up to a thousand, fewer above, more for values below 1."""
    if metric_named(metric).percent:
        return 2
    largest = max(abs(float(results.aubc(label, metric).mean())) for label in results.labels)
    return 0 if largest >= 1e4 else 1 if largest >= 1e3 else 2 if largest >= 1 else 4


def gain_table(results: Results, metric: str, reference: str, gains: Sequence[Gain]) -> Table:
    """Paired differences of AUBC to a reference, with bootstrap intervals and corrected Wilcoxon tests."""
    rows = sorted(gains, key=lambda gain: -np.nan_to_num(gain.mean, nan=-np.inf))
    places = decimals(results, metric)
    seeds = [gain.differences.size for gain in rows]
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(gain.label) for gain in rows],
        "gain": [Cell(gain.mean, digits=places, signed=True) for gain in rows],
        "95 % from": [Cell(gain.low, digits=places, signed=True) for gain in rows],
        "to": [Cell(gain.high, digits=places, signed=True) for gain in rows],
        "seeds ahead": [
            Cell(gain.wins, shown=f"{gain.wins} of {n}") for gain, n in zip(rows, seeds, strict=True)
        ],
        "Wilcoxon p": [p_cell(gain.p) for gain in rows],
        "p, Holm": [p_cell(gain.p_holm) for gain in rows],
    }
    note = (
        "Differences of AUBC seed by seed, turned so that a positive gain is better. Intervals from 10 000 "
        "bootstrap resamples of the seeds; two-sided signed-rank tests, corrected by Holm's method for the "
        "number of rows."
    )
    for few in sorted({n for n in seeds if 1 < n < MANY_SEEDS}):
        note += f" With {few} seeds no p can be below {2 / 2**few:.3g}, and the intervals are too narrow."
    return Table.of(
        f"Gain in AUBC ({metric_named(metric).unit}) over {reference}, {results.name}", columns, note
    )


def win_table(results: Results, wins: Floats) -> Table:
    """The pairwise penalty matrix, the least beaten strategy first."""
    beaten = penalties(wins)
    order = np.argsort(np.nan_to_num(beaten, nan=np.inf), kind="stable")
    names = [results.labels[i] for i in order]
    columns: dict[str, Sequence[Cell]] = {"beats": [Cell(name) for name in [*names, "mean of column"]]}
    worst = mark_best([Cell(beaten[i]) for i in order], higher=False)
    for name, j, mean in zip(names, order, worst, strict=True):
        columns[name] = [*(Cell(float(wins[i, j])) for i in order), mean]
    return Table.of(f"Wins and losses, {results.name}", columns, WIN_NOTE)


WIN_NOTE = (
    "Share of the points after the first selection at which the row beats the column in a two-sided paired "
    "t-test over the seeds (p < 0.05), as in BADGE's paper. A good strategy has a small column mean. With "
    "two or three seeds the test seldom decides, so a 0 then means little; with one seed there is no test."
)


def needs_table(results: Results, metric: str, levels: Sequence[float], baseline: str | None) -> Table:
    """Labels needed for each level, and the share of labels saved against the baseline on the seeds of both."""
    order = best_first(results, metric)
    rows = {label: _needs_row(results, metric, label, levels, baseline) for label in order}
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for j, level in enumerate(levels):
        title = f"{level:g} %" if metric_named(metric).percent else f"{level:g}"
        columns[title] = _marked(results, order, [rows[label][j] for label in order], higher=False)
    if not same_seeds(results):
        columns["seeds"] = [Cell(len(results.of(label)), digits=0) for label in order]
    note = (
        "Where the mean curve first reaches the level, between points by a straight line; – if it never does."
    )
    if baseline in results.labels:
        note += f" In brackets the change against {baseline}"
        note += "." if same_seeds(results) else " on the seeds that both have."
    return Table.of(
        f"Labels needed to reach a given {metric_named(metric).title}, {results.name}", columns, note
    )


def _needs_row(
    results: Results, metric: str, label: str, levels: Sequence[float], baseline: str | None
) -> list[Cell]:
    needs = needs_of(results, metric, label, levels)
    seeds = shared_seeds(results, label, baseline) if baseline and baseline in results.labels else []
    if not baseline or not seeds:
        return [_need(need, np.nan, results.counts[0]) for need in needs]
    mine, theirs = (needs_of(results, metric, name, levels, seeds) for name in (label, baseline))
    return [_need(need, ratio, results.counts[0]) for need, ratio in zip(needs, mine / theirs, strict=True)]


def _need(labels: float, ratio: float, first: int) -> Cell:
    if np.isnan(labels):
        return Cell(None)
    text = f"≤ {first}" if labels <= first else f"{labels:.0f}"
    change = round(100 * (ratio - 1)) if np.isfinite(ratio) else 0
    shown = f"{text} ({change:+d} %)".replace("-", "−") if change else text
    return Cell(float(labels), digits=0, shown=shown)


def time_table(results: Results, times: Sequence[Times]) -> Table:
    """Seconds of selecting and training, the quickest selection first."""
    rows = sorted(times, key=lambda each: (each.select, each.label))
    gigabyte = 2.0**30
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(each.label) for each in rows],
        "one selection": [_seconds(each.select) for each in rows],
        "at the middle cycle": [_seconds(each.middle) for each in rows],
        "one training": [_seconds(each.train) for each in rows],
        "whole run": [_seconds(each.total) for each in rows],
    }
    if any(np.isfinite(each.passes) for each in rows):
        columns["passes"] = [Cell(each.passes, digits=1) for each in rows]
    if any(np.isfinite(each.memory) for each in rows):
        columns["peak memory, GiB"] = [Cell(each.memory / gigabyte) for each in rows]
    note = "Means over seeds and cycles; the csv file has seconds."
    if "passes" in columns:
        note += " Passes: how often a candidate goes through a network, forwards, for one selection."
    return Table.of(f"Time, {results.name}", columns, note)


def ratio_table(results: Results, times: Sequence[Times], reference: str) -> Table:
    """Selection times as multiples of the reference's, each of its quickest seed; the quickest first."""
    seconds = {each.label: each.best for each in times}
    rows = sorted(over(seconds, reference).items(), key=lambda row: (row[1], row[0]))
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(label) for label, _ in rows],
        "one selection": [Cell(ratio) for _, ratio in rows],
    }
    return Table.of(
        f"Time as multiples of {reference}'s, {results.name}", columns, "Each of its quickest seed."
    )


def over(seconds: Mapping[str, float], reference: str) -> dict[str, float]:
    """Everything as a multiple of the reference."""
    base = look_up("strategy among these runs", reference, seconds)
    return {label: value / base for label, value in seconds.items()}


def _seconds(value: float) -> Cell:
    return Cell(value, shown=duration(value))
