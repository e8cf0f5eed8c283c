"""Names written at the ends of curves, in place of a legend."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Affine2DBase, ScaledTranslation, blended_transform_factory

from jostle.report.styles import LineStyle, moved_apart


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
    line: dict[str, Any] = {"color": look.colour, "transform": beside, "clip_on": False}
    arrow = {"arrowstyle": "-", "color": look.colour, "lw": 0.7, "shrinkA": 0, "shrinkB": 3}
    axes.annotate("", end, (0.25, place), textcoords=beside, annotation_clip=False, arrowprops=arrow)
    axes.plot([0.25, 0.6], [place, place], ls=look.dash, lw=1.6, **line)
    axes.plot(0.425, place, marker=look.marker, ms=4.2, mew=0, **line)
    axes.text(0.68, place, name, transform=beside, va="center", fontsize=9)
