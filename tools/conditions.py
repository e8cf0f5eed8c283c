"""Tables of the benchmark's page on harder conditions and on the ceiling, for blocks that `tools.evidence` writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jostle.experiments.across import Across
from jostle.experiments.tables import Cell, Table, p_cell

TITLES = {
    "arena": "as it is",
    "noise": "one label of ten is wrong",
    "strangers": "two examples in ten belong to no class",
    "boosted": "a gradient-boosted forest learns from the picks",
    "wide": "a wider network learns from the picks",
}
SHOWN = ("default", "margin-herding", "alfa-mix", "badge", "margin")
ORACLE = "oracle"


def conditions_table(conditions: Sequence[Across]) -> Table:
    """One row for each condition: random's error that strategies take away, with p over runs after Holm."""
    cells: dict[str, list[Cell]] = {label: [] for label in SHOWN}
    for across in conditions:
        tests = across.seed_tests(SHOWN)
        for label in SHOWN:
            gain = Cell(100 * mean_gain(across, label), digits=1, signed=True).text
            cells[label].append(Cell(None, shown=f"{gain} ({p_cell(tests[label]).text})"))
    return Table.of(
        "Random's error taken away, % (p)",
        {
            "condition": [Cell(title(across)) for across in conditions],
            "settings": [
                Cell(", ".join(name.partition("-")[2] for name in each.runs)) for each in conditions
            ],
            "seeds": [Cell(None, shown=seeds(across)) for across in conditions],
            **{f"`{label}`": found for label, found in cells.items()},
        },
    )


def title(across: Across) -> str:
    """The name of a condition, from its folders."""
    return TITLES[next(iter(across.runs)).partition("-")[0]]


def seeds(across: Across) -> str:
    """Seeds of each folder that all strategies of the table share with random."""
    found = {min(across.leads(name, label, across.baseline).size for label in SHOWN) for name in across.runs}
    return " to ".join(str(number) for number in sorted({min(found), max(found)}))


def mean_gain(across: Across, label: str) -> float:
    """The mean over folders of the share of random's error that a strategy takes away."""
    return float(np.mean([*across.gains(label).values()]))


def ceiling_table(across: Across) -> Table:
    """Random's error that each strategy takes away in each setting, and that as a share of the oracle's."""
    labels = sorted(
        (label for label in across.labels if label != across.baseline),
        key=lambda label: -mean_gain(across, label),
    )
    best = mean_gain(across, ORACLE)
    return Table.of(
        "Random's error taken away, %",
        {
            "strategy": [Cell(label) for label in labels],
            **{
                name.partition("-")[2]: [
                    Cell(100 * across.gains(label)[name], digits=1, signed=True) for label in labels
                ]
                for name in across.runs
            },
            "share of the oracle's gain, %": [
                Cell(100 * mean_gain(across, label) / best, digits=0) for label in labels
            ],
            "ahead of random : behind": [
                Cell(None, shown=" : ".join(map(str, across.duel(label, across.baseline))))
                for label in labels
            ],
            "seeds": [
                Cell(
                    None, shown=", ".join(str(across.leads(name, label, ORACLE).size) for name in across.runs)
                )
                for label in labels
            ],
        },
    )
