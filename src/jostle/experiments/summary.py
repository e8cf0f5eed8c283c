"""Tables and sentences of one experiment; sentences claim no more than the seeds carry."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jostle.experiments.results import Floats, Results, metric_named
from jostle.experiments.statistics import (
    FEWEST_SEEDS,
    MANY_SEEDS,
    Gain,
    average_ranks,
    best_first,
    bootstrap,
    need_for_last,
    needs_of,
    paired_areas,
    penalties,
    shared_seeds,
)
from jostle.experiments.tables import Cell, Table, duration, mark_best, p_cell
from jostle.utils.names import look_up


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
    return [_times(results, label) for label in results.labels]


def _times(results: Results, label: str) -> Times:
    runs = results.of(label)
    select, train, memory, passes = (
        np.stack([run.costs(field) for run in runs])  # (seeds, points)
        for field in ("select_seconds", "train_seconds", "peak_memory_bytes", "passes")
    )
    passes = passes[:, 1:]
    after = select[:, 1:] if select.shape[1] > 1 else select
    return Times(
        label,
        select=float(after.mean()),
        best=float(after.mean(axis=1).min()),
        middle=float(after[:, after.shape[1] // 2].mean()),
        train=float(train.mean()),
        total=float((np.nan_to_num(select) + train).sum(axis=1).mean()),
        passes=float("nan") if np.isnan(passes).all() else float(np.nanmean(passes)),
        memory=float("nan") if np.isnan(memory).all() else float(np.nanmax(memory)),
    )


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
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(gain.label) for gain in rows],
        "gain": [Cell(gain.mean, digits=places, signed=True) for gain in rows],
        "95 % from": [Cell(gain.interval[0], digits=places, signed=True) for gain in rows],
        "to": [Cell(gain.interval[1], digits=places, signed=True) for gain in rows],
        "seeds ahead": [Cell(gain.wins, shown=f"{gain.wins} of {gain.seeds}") for gain in rows],
        "Wilcoxon p": [p_cell(gain.p) for gain in rows],
        "p, Holm": [p_cell(gain.p_holm) for gain in rows],
    }
    note = (
        "Differences of AUBC seed by seed, turned so that a positive gain is better. Intervals from 10 000 "
        "bootstrap resamples of the seeds; two-sided signed-rank tests, corrected by Holm's method for the "
        "number of rows."
    )
    for few in sorted({gain.seeds for gain in rows if 1 < gain.seeds < MANY_SEEDS}):
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


def change_table(runs: Mapping[str, Results], metric: str) -> Table | None:
    """How each strategy's AUBC changes from the first set of runs to the others, on the seeds that both have.

    None where no other set has the same labeled counts, for then areas do not compare.
    """
    (base, first), *others = runs.items()
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in first.labels]}
    for name, other in others:
        if other.counts == first.counts:
            moves = [_change(first, other, label, metric) for label in first.labels]
            intervals = [bootstrap(each) for each in moves]
            means = [float(each.mean()) if each.size else None for each in moves]
            places = decimals(first, metric)
            columns[name] = [Cell(mean, digits=places, signed=True) for mean in means]
            columns[f"{name}, 95 % from"] = [Cell(low, digits=places, signed=True) for low, _ in intervals]
            columns[f"{name}, to"] = [Cell(high, digits=places, signed=True) for _, high in intervals]
    note = (
        "AUBC minus that of the first, seed by seed, turned so that positive is better; bootstrap intervals."
    )
    return Table.of(f"Change of AUBC from {base}", columns, note) if len(columns) > 1 else None


def _change(first: Results, other: Results, label: str, metric: str) -> Floats:
    seeds = sorted({*first.seeds(label)} & {*other.seeds(label)})
    if not seeds:
        return np.empty(0)
    change = other.aubc(label, metric, seeds) - first.aubc(label, metric, seeds)
    return np.asarray(metric_named(metric).sign * change)


def lead(results: Results, metric: str, label: str, other: str) -> Gain:
    """The gain of one label over another, on the seeds that both have."""
    return Gain(label, paired_areas(results, metric, label, other))


def headline(results: Results, metric: str, baseline: str | None) -> str:
    """The result in one sentence."""
    best, *others = best_first(results, metric)
    (cell,) = mean_cells([results.aubc(best, metric)], decimals(results, metric))
    percent = " %" * metric_named(metric).percent
    area = f"an area under the {metric_named(metric).title} curve of {cell.text}{percent}"
    if not others:
        said = f"{best} has {area}"
    elif best == baseline:
        said = f"No strategy beats {best}, with {area}"
    else:
        said = _lead(results, metric, baseline if baseline in others else None, best, others[0], area)
    return (said + ".").replace(" ±", "\u00a0±").replace("± ", "±\u00a0").replace(" %", "\u00a0%")


def _lead(results: Results, metric: str, baseline: str | None, best: str, second: str, area: str) -> str:
    """The first words of a headline, as strong as the lead is clear."""
    over_second = lead(results, metric, best, second)
    over_baseline = lead(results, metric, best, baseline) if baseline else Gain(best, np.empty(0))
    better = f"{_amount(results, metric, over_baseline)} better than {baseline}"
    over = f": {better}" if over_baseline.seeds else ""
    seeds = max(over_second.seeds, over_baseline.seeds)
    if seeds < FEWEST_SEEDS:
        many = ("No shared seed decides", "One seed decides nothing", "Two seeds decide nothing")[seeds]
        return f"{many} yet; {best} has the best result, {area}{over}"
    if over and not over_baseline.clear:
        return f"No strategy is clearly better than {baseline}; {best} has the best result, {area}{over}"
    if over_second.clear:
        return f"{best} comes out ahead, with {area}{over}"
    return f"{best} has the best result, but no clear lead: {area}{over.replace(':', ',')}"


def _amount(results: Results, metric: str, gain: Gain) -> str:
    text = Cell(gain.mean, digits=decimals(results, metric)).text
    return text + " points" * metric_named(metric).percent


def _support(results: Results, metric: str, gain: Gain) -> str:
    text = f"ahead in {gain.wins} of {gain.seeds} seeds"
    if gain.seeds < MANY_SEEDS:
        return text
    low, high = (f"{side:.{decimals(results, metric)}f}".replace("-", "−") for side in gain.interval)
    return f"{text}, 95 % interval {low} to {high}"


def details(results: Results, metric: str, baseline: str | None) -> str:
    """Return the sentences below the headline."""
    best, *others = best_first(results, metric)
    seeds, said = len(results.of(best)), [""]
    if baseline in others:
        said.append(_against(results, metric, best, baseline))
        if lead(results, metric, best, baseline).clear:
            said.append(_saving(results, metric, best, baseline))
    if others and others[0] != baseline:
        said.append(_runner_up(results, metric, best, others[0]))
    if FEWEST_SEEDS <= seeds < MANY_SEEDS:
        said.append(f"{seeds} seeds are few: take the order with care.")
    return " ".join(sentence for sentence in said if sentence)


def _against(results: Results, metric: str, best: str, baseline: str) -> str:
    gain = lead(results, metric, best, baseline)
    doubt = "" if gain.clear else ", which may be chance"
    return f"Against {baseline} it is {_support(results, metric, gain)}{doubt}." if gain.seeds > 1 else ""


def _runner_up(results: Results, metric: str, best: str, second: str) -> str:
    gain = lead(results, metric, best, second)
    if gain.seeds < 2:
        return f"{second} comes second."
    behind = f"{_amount(results, metric, gain)} behind ({best} is {_support(results, metric, gain)})"
    return f"{second} comes second, {behind}{'' if gain.clear else ': too close to call'}."


def _saving(results: Results, metric: str, best: str, baseline: str) -> str:
    """How many labels the best strategy needs for what the baseline reaches at its end."""
    need, last = need_for_last(results, metric, best, baseline), results.counts[-1]
    if np.isnan(need) or round(need) >= last:
        return ""
    share = f"{need:.0f} labels instead of {last}, {100 * (1 - need / last):.0f} % fewer"
    return f"It reaches {baseline}’s last {metric_named(metric).title} with {share}."
