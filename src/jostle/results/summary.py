"""The tables of a report, and its first sentence."""

from collections.abc import Mapping, Sequence

import numpy as np

from jostle.plumbing.names import look_up
from jostle.results.curves import Floats, Results, describe
from jostle.results.statistics import (
    average_ranks,
    bootstrap,
    gains,
    label_needs,
    labels_to_reach,
    paired_areas,
    penalties,
    times,
    win_matrix,
)
from jostle.results.tables import Cell, Table, duration, mark_best

FEW = 6  # with fewer seeds a signed-rank test cannot reach 0.05, and a bootstrap interval is too narrow


def best_first(results: Results, metric: str) -> list[str]:
    """Labels by their mean AUBC."""
    sign = describe(metric).sign
    worth = {label: sign * float(results.aubc(label, metric).mean()) for label in results.labels}
    return sorted(results.labels, key=lambda label: -np.nan_to_num(worth[label], nan=-np.inf))


def unit(metric: str) -> str:
    """A metric's title with its unit, as a column has it."""
    return describe(metric).title + (", %" if describe(metric).percent else "")


def aubc_table(results: Results, metric: str) -> Table:
    """AUBC of every metric, mean ± std over seeds, with average ranks; the best strategy first."""
    order, main = best_first(results, metric), describe(metric)
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for name in (metric, *(other for other in results.metrics if other != metric)):
        areas = [results.aubc(label, name) for label in order]
        columns[f"AUBC, {unit(name)}"] = mark_best(
            mean_cells(areas, digits(results, name)), higher=describe(name).higher
        )
    ends = [results.curves(label, metric)[:, -1] for label in order]
    columns[f"last {unit(metric)}"] = mark_best(mean_cells(ends, digits(results, metric)), higher=main.higher)
    for title, first in (("rank", False), ("rank, all points", True)):
        ranks = average_ranks(results, metric, first=first)
        columns[title] = mark_best([Cell(ranks[label]) for label in order], higher=False)
    columns["seeds"] = [Cell(len(results.of(label)), digits=0) for label in order]
    span = f"{results.counts[0]} to {results.counts[-1]} labels"
    note = (
        f"Area under the budget curve from {span}, mean ± standard deviation (n − 1) over seeds. "
        "The rank is that of the mean curves at each point, averaged over the points after the first "
        "selection (the paper, too, leaves out the first point), and over all points. "
        + ("" if main.higher else f"A smaller {main.title} is better.")
    ).strip()
    return Table.of(f"AUBC and average ranks, {results.name}", columns, note)


def mean_cells(samples: Sequence[Floats], digits: int) -> list[Cell]:
    """Mean ± std of each sample; a single value has no spread."""
    means = [float(sample.mean()) if sample.size else None for sample in samples]
    stds = [float(sample.std(ddof=1)) if sample.size > 1 else None for sample in samples]
    return [Cell(mean, std, digits) for mean, std in zip(means, stds, strict=True)]


def digits(results: Results, metric: str) -> int:
    """Decimals worth showing: 2 up to a thousand, fewer above, more for values below 1."""
    if describe(metric).percent:
        return 2
    largest = max(abs(float(results.aubc(label, metric).mean())) for label in results.labels)
    return 0 if largest >= 1e4 else 1 if largest >= 1e3 else 2 if largest >= 1 else 4


def gain_table(results: Results, metric: str, reference: str) -> Table:
    """Paired differences of AUBC to a reference, with bootstrap intervals and corrected Wilcoxon tests."""
    rows = sorted(gains(results, metric, reference), key=lambda gain: -np.nan_to_num(gain.mean, nan=-np.inf))
    places = digits(results, metric)
    seeds = [gain.differences.size for gain in rows]
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(gain.label) for gain in rows],
        "gain": [Cell(gain.mean, digits=places, signed=True) for gain in rows],
        "95 % from": [Cell(gain.low, digits=places, signed=True) for gain in rows],
        "to": [Cell(gain.high, digits=places, signed=True) for gain in rows],
        "seeds ahead": [
            Cell(gain.wins, shown=f"{gain.wins} of {n}") for gain, n in zip(rows, seeds, strict=True)
        ],
        "Wilcoxon p": [_p(gain.p) for gain in rows],
        "p, Holm": [_p(gain.p_holm) for gain in rows],
    }
    note = (
        "Differences of AUBC seed by seed, turned so that a positive gain is better. Intervals from 10 000 "
        "bootstrap resamples of the seeds; two-sided signed-rank tests, corrected by Holm's method for the "
        "number of rows."
    )
    for few in sorted({n for n in seeds if 1 < n < FEW}):
        note += f" With {few} seeds no p can be below {2 / 2**few:.3g}, and the intervals are too narrow."
    return Table.of(f"Gain in AUBC ({unit(metric)}) over {reference}, {results.name}", columns, note)


def _p(p: float) -> Cell:
    return Cell(p, digits=3, shown="<0.001" if p < 0.001 else None)


def win_table(results: Results, metric: str) -> Table:
    """The pairwise penalty matrix, the least beaten strategy first."""
    wins = win_matrix(results, metric)
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
    """Labels needed for each level, and the share of labels saved against the baseline."""
    order = best_first(results, metric)
    needs = dict(zip(results.labels, label_needs(results, metric, levels), strict=True))
    base = needs.get(baseline or "", np.full(len(levels), np.nan))
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for j, level in enumerate(levels):
        title = f"{level:g} %" if describe(metric).percent else f"{level:g}"
        cells = [_need(needs[label][j], base[j], results.counts[0]) for label in order]
        columns[title] = mark_best(cells, higher=False)
    note = (
        "Where the mean curve first reaches the level, between points by a straight line; – if it never does."
    )
    if baseline in needs:
        note += f" In brackets the change against {baseline}."
    return Table.of(f"Labels needed to reach a given {describe(metric).title}, {results.name}", columns, note)


def _need(labels: float, base: float, first: int) -> Cell:
    if np.isnan(labels):
        return Cell(None)
    text = f"≤ {first}" if labels <= first else f"{labels:.0f}"
    change = round(100 * (labels / base - 1)) if np.isfinite(base) else 0
    shown = f"{text} ({change:+d} %)".replace("-", "−") if change else text
    return Cell(float(labels), digits=0, shown=shown)


def time_table(results: Results) -> Table:
    """Seconds of selecting and training, the quickest selection first."""
    rows = sorted(times(results), key=lambda each: (each.select, each.label))
    gigabyte = 2.0**30
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(each.label) for each in rows],
        "one selection": [_seconds(each.select) for each in rows],
        "at the middle cycle": [_seconds(each.middle) for each in rows],
        "one training": [_seconds(each.train) for each in rows],
        "whole run": [_seconds(each.total) for each in rows],
    }
    if any(np.isfinite(each.memory) for each in rows):
        columns["peak memory, GiB"] = [Cell(each.memory / gigabyte) for each in rows]
    return Table.of(
        f"Time, {results.name}", columns, "Means over seeds and cycles; the csv file has seconds."
    )


def ratio_table(results: Results, reference: str) -> Table:
    """Selection times as multiples of the reference's, each of its quickest seed; the quickest first."""
    seconds = {each.label: each.best for each in times(results)}
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


def headline(results: Results, metric: str, baseline: str | None) -> str:
    """The result in one sentence."""
    best = best_first(results, metric)[0]
    (cell,) = mean_cells([results.aubc(best, metric)], digits(results, metric))
    percent = " %" if describe(metric).percent else ""
    place = f"No strategy beats {best}" if best == baseline else f"{best} comes out ahead"
    said = f"{place}, with an area under the {describe(metric).title} curve of {cell.text}{percent}"
    differences = paired_areas(results, metric, best, baseline) if baseline else np.empty(0)
    if differences.size and best != baseline:
        said += f": {_amount(differences, results, metric)} better than {baseline}"
    return (said + ".").replace(" ±", "\u00a0±").replace("± ", "±\u00a0").replace(" %", "\u00a0%")


def details(results: Results, metric: str, baseline: str | None) -> str:
    """What stands behind the headline; it claims no more than the seeds carry."""
    best, *others = best_first(results, metric)
    seeds, said = len(results.of(best)), [""]
    if baseline in others:
        said.append(_against(results, metric, best, baseline))
        said.append(_saving(results, metric, best, baseline))
    if others and others[0] != baseline:
        said.append(_runner_up(results, metric, best, others[0]))
    if seeds < FEW:
        many = "One seed says little" if seeds == 1 else f"{seeds} seeds are few"
        said.append(f"{many}: take the order with care.")
    return " ".join(sentence for sentence in said if sentence)


def _against(results: Results, metric: str, best: str, baseline: str) -> str:
    differences = paired_areas(results, metric, best, baseline)
    if differences.size < 2:
        return ""
    text, clear = _doubt(differences, results, metric)
    return f"Against {baseline} it is {text}{'' if clear else ', which may be chance'}."


def _runner_up(results: Results, metric: str, best: str, second: str) -> str:
    differences = paired_areas(results, metric, best, second)
    if differences.size < 2:
        return f"{second} comes second."
    text, clear = _doubt(differences, results, metric)
    behind = f"{_amount(differences, results, metric)} behind ({best} is {text})"
    return f"{second} comes second, {behind}{'' if clear else ': too close to call'}."


def _amount(differences: Floats, results: Results, metric: str) -> str:
    text = f"{differences.mean():.{digits(results, metric)}f}".replace("-", "−")
    return text + " points" * describe(metric).percent


def _doubt(differences: Floats, results: Results, metric: str) -> tuple[str, bool]:
    """How sure a mean difference is, and whether it is clear: by its interval, or in each of few seeds."""
    places, wins, n = digits(results, metric), int((differences > 0).sum()), differences.size
    text = f"ahead in {wins} of {n} seeds"
    if n < FEW:
        return text, wins == n
    low, high = bootstrap(differences)
    return f"{text}, 95 % interval {low:.{places}f} to {high:.{places}f}".replace("-", "−"), low > 0


def _saving(results: Results, metric: str, best: str, baseline: str) -> str:
    """How many labels the best strategy needs for what the baseline reaches at its end."""
    need, last = need_for_last(results, metric, best, baseline), results.counts[-1]
    if np.isnan(need) or round(need) >= last:
        return ""
    share = f"{need:.0f} labels instead of {last}, {100 * (1 - need / last):.0f} % fewer"
    return f"It reaches {baseline}’s last {describe(metric).title} with {share}."


def need_for_last(results: Results, metric: str, label: str, baseline: str) -> float:
    """Labels with which a strategy reaches what the baseline has at the end of its budget."""
    goal = float(results.mean_curve(baseline, metric)[-1])
    curve = results.mean_curve(label, metric)
    return labels_to_reach(results.counts, curve, goal, higher=describe(metric).higher)


def compare_table(runs: Mapping[str, Results], metric: str) -> Table:
    """AUBC of every strategy in every set of runs; what a set has not run is left open."""
    labels = list(dict.fromkeys(label for results in runs.values() for label in results.labels))
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in labels]}
    for name, results in runs.items():
        areas = [results.aubc(label, metric) if label in results.labels else np.empty(0) for label in labels]
        columns[name] = mark_best(mean_cells(areas, digits(results, metric)), higher=describe(metric).higher)
    note = "Mean ± standard deviation over the seeds of each set; curves of different budgets do not compare."
    return Table.of(f"AUBC, {unit(metric)}", columns, note)


def change_table(runs: Mapping[str, Results], metric: str) -> Table | None:
    """How each strategy's AUBC changes from the first set of runs to the others, on the seeds that both have.

    None where no other set has the same labelled counts, for then areas do not compare.
    """
    (base, first), *others = runs.items()
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in first.labels]}
    for name, other in others:
        if other.counts == first.counts:
            moves = [_change(first, other, label, metric) for label in first.labels]
            intervals = [bootstrap(each) for each in moves]
            means = [float(each.mean()) if each.size else None for each in moves]
            places = digits(first, metric)
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
    return np.asarray(describe(metric).sign * change)
