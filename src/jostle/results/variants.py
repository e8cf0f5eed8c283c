"""How the same strategies fare in variants of one protocol."""

from collections.abc import Mapping, Sequence

import numpy as np

from jostle.results.curves import Floats, Results
from jostle.results.metrics import metric_named
from jostle.results.pairs import bootstrap
from jostle.results.summary import decimals
from jostle.results.tables import Cell, Table


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
