"""Who beats whom, and where."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jostle.report.styles import INK, blank, styled
from jostle.results.curves import Floats
from jostle.results.ranks import penalties

GOOD, BAD = "#0f5ca8", "#b23a06"


@styled
def win_map(labels: Sequence[str], wins: Floats) -> Figure:
    """How often each row beats each column, the least beaten first; below it the mean of each column."""
    beaten = penalties(wins)
    order = np.argsort(np.nan_to_num(beaten, nan=np.inf), kind="stable")
    cells = np.vstack([wins[np.ix_(order, order)], beaten[order]])  # (labels + 1, labels)
    names = [labels[i] for i in order]
    size = 0.52 * len(names)
    figure = blank(size + 2.2, size + 1.9)
    axes = figure.subplots()
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            corner = (column + 0.03, row + 0.03)
            axes.add_patch(Rectangle(corner, 0.94, 0.94, color=GOOD, alpha=0.06 + 0.94 * value, lw=0))
            text = f"{value:.2f}" if value else "0"
            ink = "white" if value > 0.5 else INK
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=8)
    axes.set(xlim=(0, len(names)), ylim=(0, len(names) + 1))
    axes.axhline(len(names), color=INK, lw=1.2)
    axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(names) + 1) + 0.5, [*names, "mean of column"])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    figure.tight_layout()
    return figure


@styled
def gain_map(labels: Sequence[str], folders: Sequence[str], gains: Floats) -> Figure:
    """What each strategy gains in each folder, in percent: blue is better than the baseline, red is worse.

    Folders go down the page, since there may be many.
    """
    figure = blank(0.52 * len(labels) + 2.4, 0.3 * len(folders) + 1.9)
    axes = figure.subplots()
    strongest = max(float(np.nanmax(np.abs(gains), initial=0)), 1e-9)
    for (row, column), value in np.ndenumerate(gains.T):  # (folders, labels)
        if np.isfinite(value):
            _cell(axes, row, column, f"{value:+.0f}".replace("-", "−"), value / strongest)
    _finish_map(axes, folders, labels)
    figure.tight_layout()
    return figure


@styled
def duel_map(labels: Sequence[str], ahead: Floats, behind: Floats) -> Figure:
    """In how many folders the row is clearly ahead of the column, and behind it."""
    size = 0.5 * len(labels)
    figure = blank(size + 2.2, 0.36 * len(labels) + 1.9)
    axes = figure.subplots()
    most = max(float(np.abs(ahead - behind).max(initial=0)), 1.0)
    for (row, column), wins in np.ndenumerate(ahead):
        if row != column:
            losses = float(behind[row, column])
            _cell(axes, row, column, f"{wins:.0f} : {losses:.0f}", (wins - losses) / most)
    _finish_map(axes, labels, labels)
    figure.tight_layout()
    return figure


def _cell(axes: Axes, row: int, column: int, text: str, strength: float) -> None:
    """A cell whose colour says how good it is, from -1 to 1."""
    colour = GOOD if strength > 0 else BAD
    shade = Rectangle(
        (column + 0.03, row + 0.05), 0.94, 0.9, color=colour, alpha=0.06 + 0.8 * abs(strength), lw=0
    )
    axes.add_patch(shade)
    ink = "white" if abs(strength) > 0.6 else INK
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=8)


def _finish_map(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
