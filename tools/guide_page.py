"""The table and the figure of `jostle.advice.advice`, for docs/how-to/choose-a-strategy.md and README.md."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from jostle.advice.advice import KINDS, Record, group_in_words, groups, of_kind
from jostle.experiments.page import INK, line_styles, styled
from jostle.experiments.tables import MISSING, Cell, Table
from tools.confirmation import bare

SHOWN = ("default", "margin-herding", "alfa-mix", "badge", "margin")


def table() -> str:
    """One row for each group: what `default` gained, how sure that is, what it cost, and who was better."""
    found = groups()
    names = [group_in_words(group) for group in found]
    own = [group.record("default") for group in found]
    best = [group.best_except("default") for group in found]
    columns: dict[str, Sequence[Cell]] = {
        "data": [Cell(kind) for kind, _, _ in names],
        "labels at the start": [Cell(labels) for _, labels, _ in names],
        "batch": [Cell(batch) for _, _, batch in names],
        "settings, runs": [Cell(None, shown=f"{len(group.settings)}, {group.seeds}") for group in found],
        "`default`: gain ± 95 %": [Cell(None, shown=interval(each)) for each in own],
        "range": [
            Cell(None, shown=MISSING if each is None else f"{percent(each.worst)} to {percent(each.best)}")
            for each in own
        ],
        "ahead : behind": [
            Cell(None, shown=MISSING if each is None else f"{each.ahead} : {each.behind}") for each in own
        ],
        "passes": [Cell(None if each is None else each.passes, digits=1) for each in own],
        "best other": [
            Cell(None, shown=MISSING if each is None else f"`{each.strategy}` {interval(each)}")
            for each in best
        ],
        "its passes": [Cell(None if each is None else each.passes, digits=1) for each in best],
    }
    return bare(Table.of("", columns)) + "\n"


def interval(record: Record | None) -> str:
    """A mean gain in percent, with half of its 95 % interval."""
    if record is None:
        return MISSING
    return f"{Cell(100 * record.gain, digits=0, signed=True).text} ± {Cell(100 * record.within, digits=0).text} %"


def percent(share: float) -> str:
    """A share in percent with its sign."""
    return f"{Cell(100 * share, digits=0, signed=True).text} %"


@styled
def figure() -> Figure:
    """Mean gains by kind of data with classes, a mark for each of five strategies."""
    kinds = [kind for kind in KINDS if kind != "regressions"]
    drawn = Figure(figsize=(8, 2.6), layout="constrained")
    axes, styles = drawn.subplots(), line_styles(SHOWN)
    for place, label in enumerate(SHOWN):
        found = [next(each for each in of_kind(kind) if each.strategy == label) for kind in kinds]
        axes.plot(
            [100 * each.gain for each in found],
            [row + 0.12 * (place - 2) for row in range(len(kinds))],
            marker=styles[label].marker,
            color=styles[label].color,
            ms=6,
            mew=0,
            ls="none",
            label=label,
        )
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlabel("random's error taken away, %")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn
