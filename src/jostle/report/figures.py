"""Figures of a set of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2DBase, ScaledTranslation, blended_transform_factory
from scipy import stats

from jostle.report.styles import INK, Look, blank, looks, spread, styled
from jostle.results.curves import Floats, Results, describe
from jostle.results.statistics import LEVEL, Gain, Times, paired_curves, penalties, shared_seeds
from jostle.results.tables import duration

CROWD = 6  # more bands than this are drawn fainter
CYCLES = 9  # of a setting's figure; from longer runs as many are taken at even distances
FEW = 5  # fewer seeds than this are drawn one by one rather than as a band


def band(curves: Floats) -> tuple[Floats, Floats]:
    """The band around a mean curve: its 95 % confidence interval (t), or the range of two seeds.

    With two seeds the interval would be nine standard deviations wide to either side and hide every curve.
    """
    n = len(curves)
    if n < 3:
        return curves.min(axis=0), curves.max(axis=0)
    mean, error = curves.mean(axis=0), curves.std(axis=0, ddof=1) / np.sqrt(n)
    width = stats.t.ppf(1 - LEVEL / 2, n - 1) * error
    return mean - width, mean + width


@styled
def learning_curves(results: Results, metric: str) -> Figure:
    """Mean curves of all strategies with their bands, named at their ends."""
    figure = blank(8.6, max(4.6, 1.6 + 0.24 * len(results.labels)))
    axes = figure.subplots()
    _draw_curves(axes, results, metric, looks(results.labels))
    axes.set_ylabel(_unit(metric))
    figure.tight_layout()
    return figure


@styled
def gain_curves(results: Results, metric: str, reference: str) -> Figure:
    """A panel for each strategy: its paired gain over the reference at every point, the others in grey.

    Differences seed by seed show what the plain curves hide behind the steep start that they share.
    """
    shown = looks(results.labels)
    paired = {
        label: describe(metric).sign * paired_curves(results, metric, label, reference)
        for label in results.labels
        if label != reference and shared_seeds(results, label, reference)
    }
    columns = min(4, max(1, len(paired)))
    rows = max(1, -(-len(paired) // columns))
    figure = blank(8.6, 0.7 + 1.5 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for axes, (label, rises) in zip(grid, paired.items(), strict=False):
        axes.axhline(0, color=INK, lw=0.8)
        for other in paired.values():
            axes.plot(results.counts, other.mean(axis=0), color=INK, alpha=0.14, lw=0.7)
        _draw_gain(axes, results.counts, rises, shown[label].colour)
        axes.set_title(label, loc="left", fontsize=9, pad=3)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.grid(visible=True)
    _fit(grid[0], [(rises if len(rises) < FEW else rises.mean(axis=0)).ravel() for rises in paired.values()])
    _finish_grid(grid, len(paired), columns)
    figure.supxlabel("labelled examples", fontsize=9.5)
    figure.supylabel(f"gain over {reference}" + _points(metric), fontsize=9.5)
    figure.set_layout_engine("constrained")  # tight_layout forgets titles that panels share
    return figure


@styled
def side_by_side(runs: Mapping[str, Results], metric: str) -> Figure:
    """The learning curves of several runs, a panel each, in the same colours."""
    labels = list(dict.fromkeys(label for results in runs.values() for label in results.labels))
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = blank(4.9 * columns, 3.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    shared = looks(labels)
    for axes, (name, results) in zip(grid, runs.items(), strict=False):
        _draw_curves(axes, results, metric, shared)
        axes.set_title(name, loc="left", fontsize=10.5)
        axes.set_ylabel(_unit(metric))
    _finish_grid(grid, len(runs), columns)
    figure.tight_layout()
    return figure


@styled
def aubc_dots(results: Results, metric: str) -> Figure:
    """AUBC of every seed, its mean and the interval of the mean; the best on top."""
    higher, shown = describe(metric).higher, looks(results.labels)
    areas = {label: results.aubc(label, metric) for label in results.labels}
    order = sorted(areas, key=lambda label: areas[label].mean(), reverse=not higher)
    figure, axes = _rows(order)
    for y, label in enumerate(order):
        colour, values = shown[label].colour, areas[label]
        _seeds(axes, values, y, colour)
        if len(values) > 2:
            low, high = band(values[:, None])
            axes.plot([low[0], high[0]], [y, y], color=colour, lw=2.2, solid_capstyle="round")
        axes.plot(values.mean(), y, "D", color=colour, ms=7, mew=0)
    axes.set_xlabel(f"AUBC of {_unit(metric)}" + ("" if higher else " (smaller is better)"))
    figure.tight_layout()
    return figure


@styled
def gain_dots(gains: Sequence[Gain], reference: str, metric: str, labels: Sequence[str]) -> Figure:
    """Paired AUBC differences to the reference with their bootstrap intervals; right of 0 is better."""
    shown = looks(labels)
    order = sorted((gain for gain in gains if gain.differences.size), key=lambda gain: gain.mean)
    figure, axes = _rows([gain.label for gain in order])
    axes.axvline(0, color=INK, lw=0.9)
    for y, gain in enumerate(order):
        colour = shown[gain.label].colour
        _seeds(axes, gain.differences, y, colour)
        axes.plot([gain.low, gain.high], [y, y], color=colour, lw=2.2, solid_capstyle="round")
        axes.plot(gain.mean, y, "D", color=colour, ms=7, mew=0)
    axes.set_xlabel(f"gain in AUBC over {reference}" + _points(metric))
    figure.tight_layout()
    return figure


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


@styled
def setting_dots(results: Results, metric: str, setting: str, values: Mapping[str, str]) -> Figure:
    """A setting along the x axis, and above each value the mean metric after each of several selections."""
    figure = blank(8.0, 4.8)
    axes = figure.subplots()
    means = np.stack([results.mean_curve(label, metric) for label in values])  # (values, points)
    last = len(results.counts) - 1
    points = np.unique(np.linspace(1, last, min(last, CYCLES)).round().astype(int)).tolist()
    colours = mpl.colormaps["viridis"](np.linspace(0.15, 0.85, len(points)))
    ends: list[tuple[str, float, Look]] = []
    for point, colour in zip(points, colours, strict=True):
        axes.plot(range(len(values)), means[:, point], "o-", color=colour, ms=6, lw=0.9, alpha=0.95)
        look = Look(to_hex(colour), "-", "o")
        ends.append((f"{results.counts[point]} labels", float(means[-1, point]), look))
    axes.set_xticks(range(len(values)), list(values.values()))
    axes.margins(x=0.06)
    axes.set_xlabel(setting)
    axes.set_ylabel(_unit(metric))
    axes.grid(visible=True)
    _name_ends(axes, len(values) - 1, ends)
    figure.tight_layout()
    return figure


@styled
def time_bars(times: Sequence[Times]) -> Figure:
    """Seconds of a selection and of a training; logarithmic where they differ by much."""
    order = sorted(times, key=lambda each: (each.select, each.label), reverse=True)
    shown = looks([each.label for each in times])
    figure = blank(8.6, 1.0 + 0.3 * len(order))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, title, seconds in (
        (left, "one selection", [each.select for each in order]),
        (right, "one training", [each.train for each in order]),
    ):
        _bars(axes, seconds, [shown[each.label].colour for each in order])
        axes.set_title(
            title + (", logarithmic" if axes.get_xscale() == "log" else ""), loc="left", fontsize=9.5
        )
    left.set_yticks(range(len(order)), [each.label for each in order])
    figure.tight_layout()
    return figure


def _draw_gain(axes: Axes, counts: Sequence[int], gains: Floats, colour: str) -> None:
    if len(gains) < FEW:
        axes.plot(counts, gains.T, color=colour, alpha=0.45, lw=0.8)
    else:
        axes.fill_between(counts, *band(gains), color=colour, alpha=0.25, lw=0)
    axes.plot(counts, gains.mean(axis=0), color=colour, lw=1.9)


def _bars(axes: Axes, seconds: Sequence[float], colours: Sequence[str]) -> None:
    widths = np.nan_to_num(np.asarray(seconds))
    axes.barh(range(len(widths)), widths, color=colours, height=0.62)
    positive = widths[widths > 0]
    if positive.size and positive.max() > 30 * positive.min():
        axes.set_xscale("log")
        axes.set_xlim(positive.min() / 3, positive.max() * 6)
    else:
        axes.set_xlim(0, max(widths.max(), 1e-9) * 1.2)
    for y, width in enumerate(widths):
        left = max(width, axes.get_xlim()[0])
        axes.annotate(
            duration(width), (left, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5
        )
    axes.tick_params(axis="y", length=0)
    axes.minorticks_off()
    axes.set_xticks([])
    axes.spines[["bottom"]].set_visible(False)


def _rows(names: Sequence[str]) -> tuple[Figure, Axes]:
    figure = blank(8.6, 0.9 + 0.34 * len(names))
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.65, len(names) - 0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True)
    return figure, axes


def _seeds(axes: Axes, values: Floats, y: float, colour: str) -> None:
    """Single seeds just below their mean, so that neither hides the other."""
    axes.plot(values, np.full(len(values), y - 0.24), "o", color=colour, ms=3.6, alpha=0.5, mew=0)


def _unit(metric: str) -> str:
    return describe(metric).title + (" (%)" if describe(metric).percent else "")


def _points(metric: str) -> str:
    return " (points)" if describe(metric).percent else ""


def _draw_curves(axes: Axes, results: Results, metric: str, shown: Mapping[str, Look]) -> None:
    faint = 0.14 if len(results.labels) <= CROWD else 0.07
    means = {label: results.mean_curve(label, metric) for label in results.labels}
    for label, mean in means.items():
        colour, dash, marker = shown[label]
        if len(results.of(label)) > 1:
            sides = band(results.curves(label, metric))
            axes.fill_between(results.counts, *sides, color=colour, alpha=faint, lw=0)
        (line,) = axes.plot(results.counts, mean, color=colour, ls=dash, marker=marker, ms=4.2, lw=1.6, mew=0)
        line.set_markevery(max(1, len(results.counts) // 12))
    axes.margins(x=0.02)
    _fit(axes, list(means.values()))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("labelled examples")
    axes.grid(visible=True)
    _name_ends(axes, results.counts[-1], [(label, mean[-1], shown[label]) for label, mean in means.items()])


def _fit(axes: Axes, means: Sequence[Floats]) -> None:
    """Room for the mean curves first; a wide band may be cut."""
    values = np.concatenate([np.zeros(0), *means])
    values = values[np.isfinite(values)]
    if values.size:
        room = 0.12 * float(np.ptp(values)) or 1.0
        axes.set_ylim(values.min() - room, values.max() + room)


def _finish_grid(grid: Sequence[Axes], used: int, columns: int) -> None:
    """Hide what is left over, and give the lowest panel of every column its numbers."""
    for i, axes in enumerate(grid):
        axes.set_visible(i < used)
        if used - columns <= i < used:
            axes.tick_params(labelbottom=True)


def _name_ends(axes: Axes, x: float, ends: Sequence[tuple[str, float, Look]]) -> None:
    """Right of each curve's end write a sample of its line and its name, moved apart so as not to overlap."""
    ends = sorted((end for end in ends if np.isfinite(end[1])), key=lambda end: end[1])
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    places = spread([end[1] for end in ends], gap=12 / (72 * inches) * (high - low), low=low, high=high)
    for (name, y, look), place in zip(ends, places, strict=True):
        _name_end(axes, (x, y), place, name, look)


def _name_end(axes: Axes, end: tuple[float, float], place: float, name: str, look: Look) -> None:
    from_edge = axes.figure.dpi_scale_trans + ScaledTranslation(1, 0, cast(Affine2DBase, axes.transAxes))
    beside = blended_transform_factory(from_edge, axes.transData)  # inches from the right edge, data
    line: dict[str, Any] = {"color": look.colour, "transform": beside, "clip_on": False}
    arrow = {"arrowstyle": "-", "color": look.colour, "lw": 0.7, "shrinkA": 0, "shrinkB": 3}
    axes.annotate("", end, (0.25, place), textcoords=beside, annotation_clip=False, arrowprops=arrow)
    axes.plot([0.25, 0.6], [place, place], ls=look.dash, lw=1.6, **line)
    axes.plot(0.425, place, marker=look.marker, ms=4.2, mew=0, **line)
    axes.text(0.68, place, name, transform=beside, va="center", fontsize=9)
