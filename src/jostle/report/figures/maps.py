"""Who beats whom."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jostle.report.styles import INK, blank, styled
from jostle.results.curves import Floats
from jostle.results.ranks import penalties


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
            axes.add_patch(Rectangle(corner, 0.94, 0.94, color="#0f5ca8", alpha=0.06 + 0.94 * value, lw=0))
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
