"""The tables of many folders of runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from jostle.experiments.results.across import Across
from jostle.experiments.results.curves import metric_named
from jostle.experiments.results.summary import Times, decimals, mean_cells, times
from jostle.experiments.results.tables import Cell, Table, duration, mark_best, p_cell


def overview_table(across: Across) -> Table:
    """A row for each strategy: its ranks, what it gains over the baseline, its worst case, what it costs."""
    labels, order = across.labels, across.everywhere
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in labels]}
    if len(order) > 1:
        columns["rank"] = _rank_cells(across, labels)
    for metric, part in across.parts().items():
        if len(part.everywhere) > 1:
            columns[f"rank, {metric_named(metric).title}"] = _rank_cells(part, labels)
    if any(across.has(label) for label in labels):
        columns |= _gain_columns(across)
    costs = {name: {each.label: each for each in times(results)} for name, results in across.runs.items()}
    columns["one selection"] = [
        _seconds([each[label] for each in costs.values() if label in each]) for label in labels
    ]
    passes = [[each[label].passes for each in costs.values() if label in each] for label in labels]
    if np.isfinite(np.concatenate(passes)).any():
        columns["passes"] = [Cell(_mean(found), digits=1) for found in passes]
    present = {label: sum(label in results.labels for results in across.runs.values()) for label in labels}
    columns["sets"] = [Cell(present[label], digits=0) for label in labels]
    return Table.of(f"{len(across.runs)} sets of runs", columns, _overview_note(across))


def _rank_cells(across: Across, labels: Sequence[str]) -> list[Cell]:
    return mark_best([Cell(across.average_ranks.get(label)) for label in labels], higher=False)


def _gain_columns(across: Across) -> dict[str, Sequence[Cell]]:
    labels, base = across.labels, across.baseline
    others = [label for label in labels if label != base]
    gains = {label: across.gains(label) for label in others}
    duels = {label: across.duel(label, base) for label in others}
    worst = {label: min(each, key=lambda name: each[name]) for label, each in gains.items() if each}

    def share(values: Mapping[str, float], digits: int = 1) -> Cell:
        return Cell(100 * float(np.mean([*values.values()])) if values else None, digits=digits, signed=True)

    def cells(cell: Mapping[str, Cell]) -> list[Cell]:
        return [cell.get(label, Cell(None)) for label in labels]

    points = {label: float(np.mean([*each.values()])) for label in others if (each := across.points(label))}
    saved = {label: share(across.savings(label), 0) for label in others}
    gain = {label: share(each) for label, each in gains.items()}
    lowest = {label: share({name: gains[label][name]}) for label, name in worst.items()}
    in_points = cells({label: Cell(mean, signed=True) for label, mean in points.items()})
    return {
        "error less, %": cells(_fairly_marked(across, gain)),
        **({"points": in_points} if points else {}),
        "labels saved, %": cells(saved),
        "worst, %": cells(_fairly_marked(across, lowest)),
        "where": [Cell(worst.get(label, "–")) for label in labels],
        "ahead : behind": cells({label: _score(*duel) for label, duel in duels.items()}),
        "p, sets": cells({label: p_cell(p) for label, p in across.tests(others).items()}),
        "p, runs": cells({label: p_cell(p) for label, p in across.seed_tests(others).items()}),
    }


def _score(ahead: int, behind: int) -> Cell:
    return Cell(float(ahead - behind), shown=f"{ahead} : {behind}")


def _fairly_marked(across: Across, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The best cell marked, among the strategies that all folders have."""
    fair = [label for label in cells if label in across.everywhere]
    marked = mark_best([cells[label] for label in fair], higher=True)
    return {**cells, **dict(zip(fair, marked, strict=True))}


def _seconds(costs: Sequence[Times]) -> Cell:
    """The geometric mean over folders of a selection's seconds: folders differ by orders of magnitude."""
    known = np.array([each.select for each in costs if each.select > 0])
    if not known.size:
        return Cell(None)
    seconds = float(np.exp(np.log(known).mean()))
    return Cell(seconds, shown=duration(seconds))


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else None


def _overview_note(across: Across) -> str:
    base, sets = across.baseline, len(across.runs)
    note = f"Rank: that of a strategy's AUBC in a set, averaged over the {sets} sets, among strategies that all have."
    if any(across.has(label) for label in across.labels):
        note += (
            f" Error less: by what share a strategy's area lowers {base}'s error (its area, or its lack of 100 %), "
            "the mean over sets, and the worst set. Points: the same as AUBC, where the metric is a share. "
            f"Labels saved: for what {base} reaches at its end; negative: those that {base} saves. "
            "Ahead, behind: sets in which a paired t-test over seeds decides (p < 0.05). "
            f"p: signed-rank tests against {base}, corrected by Holm's method, over sets and over all runs; {sets} "
            f"sets cannot give less than {2 / 2**sets:.2g}, and the one over runs is about these sets and no others."
        )
    return (
        note
        + " One selection: geometric mean over sets; passes of a candidate through networks for it: the mean."
    )


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
    """What every strategy gains over the baseline in every folder."""
    labels = [label for label in across.labels if label != across.baseline]
    gains = {label: across.gains(label) for label in labels}
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in labels]}
    for name in across.runs:
        found = [gains[label].get(name) for label in labels]
        cells = [Cell(None if gain is None else 100 * gain, digits=1, signed=True) for gain in found]
        columns[name] = mark_best(cells, higher=True)
    note = f"By how many percent the strategy's area lowers {across.baseline}'s error; positive is better."
    return Table.of(f"Gain over {across.baseline} in every set", columns, note)


def areas_table(across: Across) -> Table:
    """AUBC of every strategy in every folder; what a folder has not run is left open."""
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in across.labels]}
    one = len({*across.metrics.values()}) == 1
    for name, results in across.runs.items():
        metric = across.metrics[name]
        known = [
            results.aubc(label, metric) if label in results.labels else np.empty(0) for label in across.labels
        ]
        cells = mean_cells(known, decimals(results, metric))
        title = name if one else f"{name}, {metric_named(metric).unit}"
        columns[title] = mark_best(cells, higher=metric_named(metric).higher)
    note = "Mean ± standard deviation over the seeds of each set; curves of different budgets do not compare."
    unit = f", {metric_named(next(iter(across.metrics.values()))).unit}" if one else ""
    return Table.of(f"AUBC{unit}", columns, note)
