"""Figures: learning curves, gains, areas, times, a varied setting, ranks, and maps of wins and gains."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator
from scipy import stats

from jostle.experiments.page import GREY, INK, LineStyle, blank, line_styles, name_ends, styled
from jostle.experiments.results import Floats, Results, metric_named
from jostle.experiments.statistics import (
    LEVEL,
    Gain,
    Times,
    best_first,
    paired_curves,
    penalties,
    shared_seeds,
)
from jostle.experiments.tables import duration

CYCLES = 9  # of a setting's figure; from longer runs as many are taken at even distances
DRAWN_ONE_BY_ONE = 5  # fewer seeds than this are drawn one by one rather than as a band


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
    _draw_curves(axes, results, metric, line_styles(results.labels), most_ticks=10)
    axes.set_ylabel(metric_named(metric).axis)
    figure.tight_layout()
    return figure


@styled
def gain_curves(results: Results, metric: str, reference: str) -> Figure:
    """A panel for each strategy: its paired gain over the reference at every point, the others in gray.

    Differences seed by seed show what the plain curves hide behind the steep start that they share.
    """
    shown = line_styles(results.labels)
    paired = {
        label: paired_curves(results, metric, label, reference)
        for label in results.labels
        if label != reference and shared_seeds(results, label, reference)
    }
    columns = min(4, max(1, len(paired)))
    rows = max(1, -(-len(paired) // columns))
    figure = blank(8.6, 0.7 + 1.5 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for axes, (label, rises) in zip(grid, paired.items(), strict=False):
        axes.axhline(0, color=INK, lw=0.8)
        axes.xaxis.set_major_locator(FixedLocator(count_ticks(results.counts, 4)))
        axes.grid(visible=True)
        for other in paired.values():
            axes.plot(results.counts, other.mean(axis=0), color=INK, alpha=0.14, lw=0.7)
        color = shown[label].color
        if len(rises) < DRAWN_ONE_BY_ONE:
            axes.plot(results.counts, rises.T, color=color, alpha=0.45, lw=0.8)
        else:
            axes.fill_between(results.counts, *band(rises), color=color, alpha=0.25, lw=0)
        axes.plot(results.counts, rises.mean(axis=0), color=color, lw=1.9)
        axes.set_title(label, loc="left", fontsize=9, pad=3)
    drawn = [each if len(each) < DRAWN_ONE_BY_ONE else each.mean(axis=0) for each in paired.values()]
    _fit(grid[0], [curves.ravel() for curves in drawn])
    _finish_grid(grid, len(paired), columns)
    figure.supxlabel("labeled examples", fontsize=9.5)
    figure.supylabel(f"gain over {reference}" + metric_named(metric).gain_unit, fontsize=9.5)
    figure.set_layout_engine("constrained")  # tight_layout forgets titles that panels share
    return figure


@styled
def side_by_side(
    runs: Mapping[str, Results], metrics: Mapping[str, str], labels: Sequence[str], named: Sequence[str]
) -> Figure:
    """The learning curves of several runs, a panel each, in the colors that `labels` have; gray if not `named`."""
    columns = min(2, len(runs))
    rows = -(-len(runs) // columns)
    figure = blank(4.9 * columns, (3.9 if len(runs) <= 4 else 2.9) * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    shared = {label: style for label, style in line_styles(labels).items() if label in named}
    for axes, (name, results) in zip(grid, runs.items(), strict=False):
        _draw_curves(axes, results, metrics[name], shared, most_ticks=6)
        axes.set_title(name, loc="left", fontsize=10.5)
        axes.set_ylabel(metric_named(metrics[name]).axis)
    _finish_grid(grid, len(runs), columns)
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
    colors = mpl.colormaps["viridis"](np.linspace(0.15, 0.85, len(points)))
    ends: list[tuple[str, float, LineStyle]] = []
    for point, color in zip(points, colors, strict=True):
        axes.plot(range(len(values)), means[:, point], "o-", color=color, ms=6, lw=0.9, alpha=0.95)
        look = LineStyle(to_hex(color), "-", "o")
        ends.append((f"{results.counts[point]} labels", float(means[-1, point]), look))
    axes.set_xticks(range(len(values)), list(values.values()))
    axes.margins(x=0.06)
    axes.set_xlabel(setting)
    axes.set_ylabel(metric_named(metric).axis)
    axes.grid(visible=True)
    name_ends(axes, len(values) - 1, ends)
    figure.tight_layout()
    return figure


def count_ticks(counts: Sequence[int], most: int) -> list[int]:
    """At most so many of the labeled counts, the first among them, at even distances: ticks lie under points."""
    step = max(1, -(-(len(counts) - 1) // max(1, most - 1)))
    ticks = list(counts[::step])
    left_over = (len(counts) - 1) % step
    return [*ticks, counts[-1]] if 2 * left_over > step else ticks


def _draw_curves(
    axes: Axes, results: Results, metric: str, shown: Mapping[str, LineStyle], most_ticks: int
) -> None:
    """All mean curves; those that are `shown` with their bands and names, the others in gray behind them."""
    faint = 0.14 if len(shown) <= 6 else 0.07
    means = {label: results.mean_curve(label, metric) for label in results.labels}
    drawn = list(means.values())  # what there must be room for
    for label in [label for label in means if label not in shown]:
        axes.plot(results.counts, means[label], color=GREY, alpha=0.4, lw=0.8)
    for label in [label for label in means if label in shown]:
        color, dash, marker = shown[label]
        if len(results.of(label)) > 1:
            low, high = band(results.curves(label, metric))
            if metric_named(metric).percent:  # a share lies between 0 and 100 %
                low, high = low.clip(0, 100), high.clip(0, 100)
            drawn += [low, high]
            axes.fill_between(results.counts, low, high, color=color, alpha=faint, lw=0)
        style = {"color": color, "ls": dash, "marker": marker, "ms": 4.2, "lw": 1.6, "mew": 0}
        (line,) = axes.plot(results.counts, means[label], **style)
        line.set_markevery(max(1, len(results.counts) // 12))
    axes.margins(x=0.02)
    _fit(axes, drawn, room=0.04)
    axes.xaxis.set_major_locator(FixedLocator(count_ticks(results.counts, most_ticks)))
    axes.set_xlabel("labeled examples")
    axes.grid(visible=True)
    ends = [(label, mean[-1], shown[label]) for label, mean in means.items() if label in shown]
    name_ends(axes, results.counts[-1], ends)


def _fit(axes: Axes, curves: Sequence[Floats], room: float = 0.12) -> None:
    """Room for these curves, and a share of their height above and below."""
    values = np.concatenate([np.zeros(0), *curves])
    values = values[np.isfinite(values)]
    if values.size:
        margin = room * float(np.ptp(values)) or 1.0
        axes.set_ylim(values.min() - margin, values.max() + margin)


def _finish_grid(grid: Sequence[Axes], used: int, columns: int) -> None:
    """Hide what is left over, and give the lowest panel of every column its numbers."""
    for i, axes in enumerate(grid):
        axes.set_visible(i < used)
        if used - columns <= i < used:
            axes.tick_params(labelbottom=True)


INTERVAL_SEEDS = 3  # fewer have no interval that is worth drawing


@styled
def aubc_dots(results: Results, metric: str) -> Figure:
    """AUBC of every seed, its mean and the interval of the mean; the best on top."""
    higher, shown = metric_named(metric).higher, line_styles(results.labels)
    areas = {label: results.aubc(label, metric) for label in results.labels}
    order = best_first(results, metric)[::-1]
    figure, axes = _rows(order)
    for y, label in enumerate(order):
        low, high = band(areas[label][:, None])
        _draw_row(axes, y, areas[label], (low[0], high[0]), shown[label].color)
    axes.set_xlabel(f"AUBC of {metric_named(metric).axis}" + ("" if higher else " (smaller is better)"))
    figure.tight_layout()
    return figure


@styled
def gain_dots(gains: Sequence[Gain], reference: str, metric: str, labels: Sequence[str]) -> Figure:
    """Paired AUBC differences to the reference with their bootstrap intervals; right of 0 is better."""
    shown = line_styles(labels)
    order = sorted((gain for gain in gains if gain.seeds), key=lambda gain: gain.mean)
    figure, axes = _rows([gain.label for gain in order])
    axes.axvline(0, color=INK, lw=0.9)
    for y, gain in enumerate(order):
        _draw_row(axes, y, gain.differences, gain.interval, shown[gain.label].color)
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
    colors = [shown[each.label].color for each in order]
    _bars(left, "one selection", [each.select for each in order], colors)
    _bars(right, "one training", [each.train for each in order], colors)
    left.set_yticks(range(len(order)), [each.label for each in order])
    figure.tight_layout()
    return figure


def _bars(axes: Axes, title: str, seconds: Sequence[float], colors: Sequence[str]) -> None:
    widths = np.nan_to_num(np.asarray(seconds))
    axes.barh(range(len(widths)), widths, color=colors, height=0.62)
    positive = widths[widths > 0]
    if positive.size and positive.max() > 30 * positive.min():
        title += ", logarithmic"
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
    axes.set_title(title, loc="left", fontsize=9.5)


def _rows(names: Sequence[str]) -> tuple[Figure, Axes]:
    figure = blank(8.6, 0.9 + 0.34 * len(names))
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.65, len(names) - 0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True)
    return figure, axes


def _draw_row(axes: Axes, y: float, values: Floats, interval: tuple[float, float], color: str) -> None:
    """A mean with its interval, and single seeds just below it, so that neither hides the other."""
    if len(values) > 1:
        axes.plot(values, np.full(len(values), y - 0.24), "o", color=color, ms=3.6, alpha=0.5, mew=0)
    if len(values) >= INTERVAL_SEEDS:
        axes.plot(interval, [y, y], color=color, lw=2.2, solid_capstyle="round")
    axes.plot(values.mean(), y, "D", color=color, ms=7, mew=0)


WIDTH = 8.6  # inches, as all lengths of a rank diagram
LEFT, RIGHT = 2.3, 6.3  # where the line of ranks begins and ends
TOP = 0.62  # of the line
ROW = 0.24  # between names
BAR = 0.13  # between bars


@styled
def rank_diagram(
    ranks: Mapping[str, float], difference: float, cliques: Sequence[Sequence[str]], labels: Sequence[str]
) -> Figure:
    """Strategies at their average ranks, the best on the left; `labels` give every strategy its usual color."""
    order, colors = sorted(ranks, key=lambda label: ranks[label]), line_styles(labels)
    last, half = len(order), -(-len(order) // 2)
    spans = [(ranks[group[0]], ranks[group[-1]]) for group in cliques]
    first_name = TOP + 0.32 + BAR * (max(lanes(spans), default=-1) + 1)
    figure = blank(WIDTH, first_name + ROW * half)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(figure.get_figheight(), 0))  # downwards
    axes.axis("off")

    def place(rank: float) -> float:
        return LEFT + (RIGHT - LEFT) * (rank - 1) / max(1, last - 1)

    axes.plot([LEFT, RIGHT], [TOP, TOP], color=INK, lw=1.0)
    for tick in range(1, last + 1, 1 if last <= 16 else 2):
        axes.plot([place(tick)] * 2, [TOP - 0.07, TOP], color=INK, lw=0.8)
        axes.text(place(tick), TOP - 0.12, str(tick), ha="center", va="bottom", fontsize=8.5)
    if 0 < difference <= last - 1:  # where it fits
        ends, y = [place(1), place(1 + difference)], TOP - 0.42
        axes.plot(ends, [y, y], color=INK, lw=1.0, marker="|", ms=6)
        axes.text(ends[1] + 0.1, y, f"critical difference {difference:.2f}", va="center", fontsize=8.5)
    for row, label in [*enumerate(order[:half]), *enumerate(reversed(order[half:]))]:  # an elbow to each name
        left, rank, color = label in order[:half], ranks[label], colors[label].color
        edge, y = LEFT - 0.15 if left else RIGHT + 0.15, first_name + ROW * row
        axes.plot([place(rank), place(rank), edge], [TOP, y, y], color=color, lw=1.1)
        axes.plot(place(rank), TOP, "o", color=color, ms=4.5, mew=0)
        text, align = (f"{label}  {rank:.2f}", "right") if left else (f"{rank:.2f}  {label}", "left")
        axes.text(edge + (-0.06 if left else 0.06), y, text, ha=align, va="center", fontsize=9)
    for (best, worst), lane in zip(
        spans, lanes(spans), strict=True
    ):  # a bar over ranks that are not told apart
        ends, y = [place(best) - 0.04, place(worst) + 0.04], TOP + 0.2 + BAR * lane
        axes.plot(ends, [y, y], color=INK, lw=3.4, solid_capstyle="round")
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


@styled
def win_map(labels: Sequence[str], wins: Floats) -> Figure:
    """How often each row beats each column, the least beaten first; below it the mean of each column."""
    beaten = penalties(wins)
    order = np.argsort(np.nan_to_num(beaten, nan=np.inf), kind="stable")
    shares = np.vstack([wins[np.ix_(order, order)], beaten[order]])  # (labels + 1, labels)
    names = [labels[i] for i in order]
    texts = {place: f"{value:.2f}" if value else "0" for place, value in np.ndenumerate(shares)}
    size = 0.52 * len(names)
    figure = _map(size + 2.2, size + 1.9, [*names, "mean of column"], names, shares, texts)
    figure.axes[0].axhline(len(names), color=INK, lw=1.2)
    return figure


@styled
def gain_map(labels: Sequence[str], folders: Sequence[str], gains: Floats) -> Figure:
    """Draw the gain of each strategy in each folder, in percent: blue is better than the baseline, red worse.

    Folders go down the page, since there may be many.
    """
    strongest = max(float(np.nanmax(np.abs(gains), initial=0)), 1e-9)
    texts = {place: f"{value:+.0f}".replace("-", "−") for place, value in np.ndenumerate(gains.T)}
    width, height = 0.52 * len(labels) + 2.4, 0.3 * len(folders) + 1.9
    return _map(width, height, folders, labels, gains.T / strongest, texts)


@styled
def duel_map(labels: Sequence[str], ahead: Floats, behind: Floats) -> Figure:
    """In how many folders the row is clearly ahead of the column, and behind it."""
    lead = ahead - behind
    strengths = lead / max(float(np.abs(lead).max(initial=0)), 1.0)
    strengths[np.diag_indices(len(labels))] = np.nan
    texts = {place: f"{wins:.0f} : {behind[place]:.0f}" for place, wins in np.ndenumerate(ahead)}
    width, height = 0.5 * len(labels) + 2.2, 0.36 * len(labels) + 1.9
    return _map(width, height, labels, labels, strengths, texts)


def _map(
    width: float,
    height: float,
    rows: Sequence[str],
    columns: Sequence[str],
    strengths: Floats,
    texts: Mapping[tuple[int, ...], str],
) -> Figure:
    """A map of cells whose colors say how good they are, from -1 to 1; those of nan are left out."""
    figure = blank(width, height)
    axes = figure.subplots()
    for (row, column), strength in np.ndenumerate(strengths):
        if np.isfinite(strength):
            color = "#0f5ca8" if strength >= 0 else "#b23a06"
            shade = 0.06 + 0.8 * abs(strength)
            axes.add_patch(Rectangle((column + 0.03, row + 0.05), 0.94, 0.9, color=color, alpha=shade, lw=0))
            ink, at = "white" if abs(strength) > 0.6 else INK, (column + 0.5, row + 0.5)
            axes.text(*at, texts[row, column], ha="center", va="center", color=ink, fontsize=8)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.tight_layout()
    return figure
