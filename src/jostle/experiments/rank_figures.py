"""Figures that compare strategies with each other: rank diagrams and maps of wins and gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jostle.experiments.results import Floats
from jostle.experiments.statistics import penalties
from jostle.experiments.styles import INK, blank, line_styles, styled

WIDTH = 8.6  # inches, as all lengths here
LEFT, RIGHT = 2.3, 6.3  # where the line of ranks begins and ends
TOP = 0.62  # of the line
ROW = 0.24  # between names
BAR = 0.13  # between bars


@dataclass(frozen=True)
class Line:
    """The line of ranks, and what hangs from it."""

    axes: Axes
    most: int  # the last rank
    names: float  # where the first row of names is

    def place(self, rank: float) -> float:
        """Return the position of a rank on the axis."""
        return LEFT + (RIGHT - LEFT) * (rank - 1) / max(1, self.most - 1)

    def draw(self) -> None:
        """The line with its ticks."""
        self.axes.plot([LEFT, RIGHT], [TOP, TOP], color=INK, lw=1.0)
        for rank in range(1, self.most + 1, 1 if self.most <= 16 else 2):
            self.axes.plot([self.place(rank)] * 2, [TOP - 0.07, TOP], color=INK, lw=0.8)
            self.axes.text(self.place(rank), TOP - 0.12, str(rank), ha="center", va="bottom", fontsize=8.5)

    def ruler(self, difference: float) -> None:
        """How long the critical difference is, where it fits."""
        if 0 < difference <= self.most - 1:
            ends, y = [self.place(1), self.place(1 + difference)], TOP - 0.42
            self.axes.plot(ends, [y, y], color=INK, lw=1.0, marker="|", ms=6)
            words = f"critical difference {difference:.2f}"
            self.axes.text(ends[1] + 0.1, y, words, va="center", fontsize=8.5)

    def bar(self, best: float, worst: float, lane: int) -> None:
        """A bar over ranks that cannot be told apart."""
        y = TOP + 0.2 + BAR * lane
        ends = [self.place(best) - 0.04, self.place(worst) + 0.04]
        self.axes.plot(ends, [y, y], color=INK, lw=3.4, solid_capstyle="round")

    def name(self, label: str, rank: float, row: int, left: bool, color: str) -> None:
        """An elbow from a rank down to its name."""
        edge, y = LEFT - 0.15 if left else RIGHT + 0.15, self.names + ROW * row
        self.axes.plot([self.place(rank), self.place(rank), edge], [TOP, y, y], color=color, lw=1.1)
        self.axes.plot(self.place(rank), TOP, "o", color=color, ms=4.5, mew=0)
        text, align = (f"{label}  {rank:.2f}", "right") if left else (f"{rank:.2f}  {label}", "left")
        self.axes.text(edge + (-0.06 if left else 0.06), y, text, ha=align, va="center", fontsize=9)


@styled
def rank_diagram(
    ranks: Mapping[str, float], difference: float, cliques: Sequence[Sequence[str]], labels: Sequence[str]
) -> Figure:
    """Strategies at their average ranks, the best on the left; `labels` give every strategy its usual color."""
    order = sorted(ranks, key=lambda label: ranks[label])
    half = -(-len(order) // 2)
    spans = [(ranks[group[0]], ranks[group[-1]]) for group in cliques]
    names = TOP + 0.32 + BAR * (max(lanes(spans), default=-1) + 1)
    figure = blank(WIDTH, names + ROW * half)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(figure.get_figheight(), 0))  # downwards
    axes.axis("off")
    line, colors = Line(axes, len(order), names), line_styles(labels)
    line.draw()
    line.ruler(difference)
    for row, label in enumerate(order[:half]):
        line.name(label, ranks[label], row, left=True, color=colors[label].color)
    for row, label in enumerate(reversed(order[half:])):
        line.name(label, ranks[label], row, left=False, color=colors[label].color)
    for (best, worst), lane in zip(spans, lanes(spans), strict=True):
        line.bar(best, worst, lane)
    return figure


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The first lane for each span in which it meets no other."""
    ends: list[float] = []
    found = []
    for low, high in spans:
        lane = next((i for i, end in enumerate(ends) if low > end), len(ends))
        ends[lane:] = [high, *ends[lane + 1 :]]
        found.append(lane)
    return found


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
            _cell(axes, row, column, f"{value:.2f}" if value else "0", value)
    axes.axhline(len(names), color=INK, lw=1.2)
    _finish_map(axes, [*names, "mean of column"], names)
    figure.tight_layout()
    return figure


@styled
def gain_map(labels: Sequence[str], folders: Sequence[str], gains: Floats) -> Figure:
    """Draw the gain of each strategy in each folder, in percent: blue is better than the baseline, red worse.

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
    """A cell whose color says how good it is, from -1 to 1."""
    color = GOOD if strength >= 0 else BAD
    shade = Rectangle(
        (column + 0.03, row + 0.05), 0.94, 0.9, color=color, alpha=0.06 + 0.8 * abs(strength), lw=0
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
