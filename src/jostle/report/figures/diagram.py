"""The critical-difference diagram: average ranks on a line, and bars over those that cannot be told apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jostle.report.styles import INK, blank, line_styles, styled

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
        """Where a rank lies."""
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

    def name(self, label: str, rank: float, row: int, left: bool, colour: str) -> None:
        """An elbow from a rank down to its name."""
        edge, y = LEFT - 0.15 if left else RIGHT + 0.15, self.names + ROW * row
        self.axes.plot([self.place(rank), self.place(rank), edge], [TOP, y, y], color=colour, lw=1.1)
        self.axes.plot(self.place(rank), TOP, "o", color=colour, ms=4.5, mew=0)
        text, align = (f"{label}  {rank:.2f}", "right") if left else (f"{rank:.2f}  {label}", "left")
        self.axes.text(edge + (-0.06 if left else 0.06), y, text, ha=align, va="center", fontsize=9)


@styled
def rank_diagram(
    ranks: Mapping[str, float], difference: float, cliques: Sequence[Sequence[str]], labels: Sequence[str]
) -> Figure:
    """Strategies at their average ranks, the best on the left; `labels` give every strategy its usual colour."""
    order = sorted(ranks, key=lambda label: ranks[label])
    half = -(-len(order) // 2)
    spans = [(ranks[group[0]], ranks[group[-1]]) for group in cliques]
    names = TOP + 0.32 + BAR * (max(lanes(spans), default=-1) + 1)
    figure = blank(WIDTH, names + ROW * half)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(figure.get_figheight(), 0))  # downwards
    axes.axis("off")
    line, colours = Line(axes, len(order), names), line_styles(labels)
    line.draw()
    line.ruler(difference)
    for row, label in enumerate(order[:half]):
        line.name(label, ranks[label], row, left=True, colour=colours[label].colour)
    for row, label in enumerate(reversed(order[half:])):
        line.name(label, ranks[label], row, left=False, colour=colours[label].colour)
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
