"""A row for each strategy: areas, gains, times."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jostle.report.figures.curves import band
from jostle.report.styles import INK, blank, line_styles, styled
from jostle.results.curves import Floats, Results
from jostle.results.metrics import metric_named
from jostle.results.pairs import Gain
from jostle.results.ranks import best_first
from jostle.results.tables import duration
from jostle.results.times import Times

INTERVAL_SEEDS = 3  # fewer have no interval that is worth drawing


@styled
def aubc_dots(results: Results, metric: str) -> Figure:
    """AUBC of every seed, its mean and the interval of the mean; the best on top."""
    higher, shown = metric_named(metric).higher, line_styles(results.labels)
    areas = {label: results.aubc(label, metric) for label in results.labels}
    order = best_first(results, metric)[::-1]
    figure, axes = _rows(order)
    for y, label in enumerate(order):
        colour, values = shown[label].colour, areas[label]
        _seeds(axes, values, y, colour)
        if len(values) >= INTERVAL_SEEDS:
            low, high = band(values[:, None])
            axes.plot([low[0], high[0]], [y, y], color=colour, lw=2.2, solid_capstyle="round")
        axes.plot(values.mean(), y, "D", color=colour, ms=7, mew=0)
    axes.set_xlabel(f"AUBC of {metric_named(metric).axis}" + ("" if higher else " (smaller is better)"))
    figure.tight_layout()
    return figure


@styled
def gain_dots(gains: Sequence[Gain], reference: str, metric: str, labels: Sequence[str]) -> Figure:
    """Paired AUBC differences to the reference with their bootstrap intervals; right of 0 is better."""
    shown = line_styles(labels)
    order = sorted((gain for gain in gains if gain.differences.size), key=lambda gain: gain.mean)
    figure, axes = _rows([gain.label for gain in order])
    axes.axvline(0, color=INK, lw=0.9)
    for y, gain in enumerate(order):
        colour = shown[gain.label].colour
        _seeds(axes, gain.differences, y, colour)
        if gain.differences.size >= INTERVAL_SEEDS:
            axes.plot([gain.low, gain.high], [y, y], color=colour, lw=2.2, solid_capstyle="round")
        axes.plot(gain.mean, y, "D", color=colour, ms=7, mew=0)
    axes.set_xlabel(f"gain in AUBC over {reference}" + metric_named(metric).gain_unit)
    figure.tight_layout()
    return figure


@styled
def time_bars(times: Sequence[Times]) -> Figure:
    """Seconds of a selection and of a training; logarithmic where they differ by much."""
    order = sorted(times, key=lambda each: (each.select, each.label), reverse=True)
    shown = line_styles([each.label for each in times])
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
    """Single seeds just below their mean, so that neither hides the other; one alone is its mean."""
    if len(values) > 1:
        axes.plot(values, np.full(len(values), y - 0.24), "o", color=colour, ms=3.6, alpha=0.5, mew=0)
