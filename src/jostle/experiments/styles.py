"""How figures look: a color for each strategy, settings of our own, and the same bytes every time."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2DBase, ScaledTranslation, blended_transform_factory

INK = "#1d2127"  # a page with a dark mode replaces this one color
GREY = "#868d96"
# Told apart by red-, green- and blue-blind eyes, on white and on black; beyond six, dashes and markers help.
COLORS = ("#0f6fc6", "#0b8f6a", "#d070b0", "#cc9a00", "#4fb3d9", "#d1480a")
FAVOURITE = {"noise-stability": "#d1480a", "random": GREY}
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = "osD^vPX*<>"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.parse_math": False,  # a label may hold dollars
    "svg.fonttype": "none",
    "svg.hashsalt": "jostle",
    "path.simplify": False,
}
P = ParamSpec("P")


class LineStyle(NamedTuple):
    """How one strategy is drawn in every figure of a report."""

    color: str
    dash: Any
    marker: str


def line_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """A style for each label: `random` is always gray, `noise-stability` always vermilion."""
    found: dict[str, LineStyle] = {}
    others = 0
    free = [c for c in COLORS if c not in {FAVOURITE.get(label) for label in labels}]
    for label in labels:
        if label in FAVOURITE:
            found[label] = LineStyle(FAVOURITE[label], DASHES[1] if label == "random" else "-", "o")
        else:
            turn = others // len(free)
            found[label] = LineStyle(
                free[others % len(free)], DASHES[turn % len(DASHES)], MARKERS[1 + others % 9]
            )
            others += 1
    return found


@contextmanager
def _style() -> Iterator[None]:
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE}
    del settings["backend"]
    with mpl.rc_context(settings):
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with our settings whatever the user's are, and leave theirs alone."""

    @wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with _style():
            return draw(*args, **kwargs)

    return wrapped


def svg(figure: Figure) -> str:
    """The figure as SVG text on white, without a date."""
    out = io.StringIO()
    with _style():
        figure.savefig(out, format="svg", facecolor="white", metadata={"Date": None, "Creator": "jostle"})
    return out.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG on white."""
    out = io.BytesIO()
    with _style():
        figure.savefig(out, format="png", facecolor="white", dpi=160, metadata={"Software": "jostle"})
    return out.getvalue()


def blank(width: float, height: float) -> Figure:
    """An empty figure of so many inches that needs no window and no pyplot."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def moved_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move rising places apart to at least `gap`, as little as possible and inside the limits if they fit."""
    groups: list[list[float]] = []  # (wish, members) of places that touch
    for place in wanted:
        groups.append([place, 1.0])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2:
            (b, m), (a, k) = groups.pop(), groups.pop()
            groups.append([(a * k + b * m) / (k + m), k + m])
    places = [middle + gap * (i - (size - 1) / 2) for middle, size in groups for i in range(int(size))]
    last = len(places) - 1
    raised = [max(place, low + i * gap) for i, place in enumerate(places)]
    return [min(place, high - (last - i) * gap) for i, place in enumerate(raised)]


def name_ends(axes: Axes, x: float, ends: Sequence[tuple[str, float, LineStyle]]) -> None:
    """Right of each curve's end write a sample of its line and its name, moved apart so as not to overlap."""
    ends = sorted((end for end in ends if np.isfinite(end[1])), key=lambda end: end[1])
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    places = moved_apart([end[1] for end in ends], gap=12 / (72 * inches) * (high - low), low=low, high=high)
    for (name, y, look), place in zip(ends, places, strict=True):
        _name_end(axes, (x, y), place, name, look)


def _name_end(axes: Axes, end: tuple[float, float], place: float, name: str, look: LineStyle) -> None:
    from_edge = axes.figure.dpi_scale_trans + ScaledTranslation(1, 0, cast(Affine2DBase, axes.transAxes))
    beside = blended_transform_factory(from_edge, axes.transData)  # inches from the right edge, data
    line: dict[str, Any] = {"color": look.color, "transform": beside, "clip_on": False}
    arrow = {"arrowstyle": "-", "color": look.color, "lw": 0.7, "shrinkA": 0, "shrinkB": 3}
    axes.annotate("", end, (0.25, place), textcoords=beside, annotation_clip=False, arrowprops=arrow)
    axes.plot([0.25, 0.6], [place, place], ls=look.dash, lw=1.6, **line)
    axes.plot(0.425, place, marker=look.marker, ms=4.2, mew=0, **line)
    axes.text(0.68, place, name, transform=beside, va="center", fontsize=9)
