"""Tables: their formats (Markdown, LaTeX, CSV, HTML, plain rows), and those of one experiment."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TypeGuard

import numpy as np

from jostle.experiments.results import Floats, Results, decimals, metric_named
from jostle.experiments.statistics import (
    MANY_SEEDS,
    Gain,
    Times,
    average_ranks,
    best_first,
    needs_of,
    penalties,
    same_seeds,
    shared_seeds,
)
from jostle.utils.files import sheet
from jostle.utils.names import look_up

MISSING = "–"
_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{c: "\\" + c for c in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "–": "--",
        "≤": r"$\le$",
    }
)


@dataclass(frozen=True)
class Cell:
    """A value with what is shown of it; `shown` replaces the digits where they would not say it."""

    value: float | str | None
    """A number, a word, or nothing."""
    spread: float | None = None
    """The standard deviation; None or nan where there is a single seed."""
    digits: int = 2
    """Decimals that are shown."""
    shown: str | None = None
    """What is shown in place of the value."""
    best: bool = False
    """Whether it is the best of its column."""
    signed: bool = False
    """Whether a plus is shown."""

    @property
    def text(self) -> str:
        """Return the text of the cell."""
        if self.shown is not None:
            return self.shown
        if isinstance(self.value, str):
            return self.value
        if not _known(self.value):
            return MISSING
        rounded = settle(self.value, self.digits)
        sign = "+" if self.signed and rounded else ""  # a zero has none
        text = f"{rounded or 0:{sign}.{self.digits}f}".replace("-", "−")
        spread = f"{settle(self.spread, self.digits):.{self.digits}f}" if _known(self.spread) else ""
        return f"{text} ± {spread}" if spread else text


def settle(value: float, digits: int) -> float:
    """Round to some digits, the same on every processor: halves that rounding errors made more or less are halves."""
    return round(round(value, digits + 6), digits)


def _known(number: float | str | None) -> TypeGuard[float]:
    return number is not None and not isinstance(number, str) and math.isfinite(number)


def p_cell(p: float) -> Cell:
    """A probability, as small as it is worth saying."""
    return Cell(p, digits=3, shown="<0.001" if p < 0.001 else None)


def signed_cells(values: Sequence[float | None], digits: int) -> list[Cell]:
    """Numbers with their signs, such as differences; – for None."""
    return [Cell(value, digits=digits, signed=True) for value in values]


def mark_best(cells: Sequence[Cell], *, higher: bool, fair: Sequence[bool] | None = None) -> list[Cell]:
    """Mark the best of a column, and whatever equals it at the digits shown.

    Args:
        cells: The column.
        higher: Whether more is better.
        fair: Whether each cell may be the best; None: all may.
    """
    rounded = [
        settle(cell.value, cell.digits) if _known(cell.value) and ok else None
        for cell, ok in zip(cells, fair or [True] * len(cells), strict=True)
    ]
    top = (max if higher else min)((value for value in rounded if value is not None), default=None)
    pairs = zip(cells, rounded, strict=True)
    return [replace(cell, best=value is not None and value == top) for cell, value in pairs]


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title; the note says how to read them."""

    title: str
    """What it shows."""
    columns: tuple[str, ...]
    """Their names."""
    rows: tuple[tuple[Cell, ...], ...]
    """A cell for each column."""
    note: str = ""
    """How to read it."""

    @classmethod
    def of(cls, title: str, columns: Mapping[str, Sequence[Cell]], note: str = "") -> "Table":
        """Build a table from its columns.

        Args:
            title: What it shows.
            columns: Name -> cells.
            note: How to read it.
        """
        return cls(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), note)

    def only(self, names: Sequence[str]) -> "Table":
        """The table with those of its columns that are among `names`."""
        kept = [place for place, column in enumerate(self.columns) if column in names]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in kept), rows=rows)

    def beside(self, column: str, values: Mapping[str, float]) -> "Table":
        """The table with one more `column`, its numbers found among `values` by the first cell of each row."""
        rows = tuple((*row, Cell(values.get(row[0].text))) for row in self.rows)
        return replace(self, columns=(*self.columns, column), rows=rows)

    def plain(self) -> list[list[str]]:
        """Rows of text, without header."""
        return [[cell.text for cell in row] for row in self.rows]

    def marked(self) -> list[list[str]]:
        """Rows of text for rich, the best in bold."""
        return self._texts(lambda text: text.replace("[", r"\["), "[bold]{}[/bold]")

    def markdown(self) -> str:
        """A pipe table under its title."""
        header = [column.replace("|", r"\|") for column in self.columns]
        rule = ["---:" if self._numeric(i) else "---" for i in range(len(self.columns))]
        rows = [header, rule, *self._texts(lambda text: text.replace("|", r"\|"), "**{}**")]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else []), ""])

    def latex(self) -> str:
        """A `table` environment; needs the booktabs package."""
        align = "".join("r" if self._numeric(i) else "l" for i in range(len(self.columns)))
        caption = self.title + (". " + self.note if self.note else "")
        rows = self._texts(lambda text: text.translate(_TEX), r"\textbf{{{}}}")
        lines = [
            r"\begin{table}[tb]",
            r"  \centering",
            rf"  \caption{{{caption.translate(_TEX)}}}",
            rf"  \begin{{tabular}}{{{align}}}",
            r"  \toprule",
            "  " + " & ".join(name.translate(_TEX) for name in self.columns) + r" \\",
            r"  \midrule",
            *("  " + " & ".join(row) + r" \\" for row in rows),
            r"  \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Every value at full precision; a spread has a column of its own."""
        columns: list[list[str]] = []
        for i, name in enumerate(self.columns):
            cells = [row[i] for row in self.rows]
            columns.append([name, *(_raw(cell.value) for cell in cells)])
            if any(_known(cell.spread) for cell in cells):
                columns.append([f"{name} std", *(_raw(cell.spread) for cell in cells)])
        return sheet(zip(*columns, strict=True))

    def html(self, colors: Mapping[str, str]) -> str:
        """A `<table>`; cells of numbers have the class `number`, and names that have one of the `colors` a chip."""
        heads = [
            f"<th scope='col'{self._class(i)}>{escape(name)}</th>" for i, name in enumerate(self.columns)
        ]
        rows = []
        for (name, *_), texts in zip(self.plain(), self._texts(escape, "<b>{}</b>"), strict=True):
            chip = f"<i class='chip' style='background:{colors[name]}'></i>" if name in colors else ""
            cells = [f"<td{self._class(i)}>{text}</td>" for i, text in enumerate(texts[1:], start=1)]
            rows.append(f"<tr><th scope='row'>{chip}{escape(name)}</th>{''.join(cells)}</tr>")
        body = "\n".join(rows)
        return f"<table>\n<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _class(self, column: int) -> str:
        return " class='number'" if self._numeric(column) else ""

    def _numeric(self, column: int) -> bool:
        return not all(isinstance(row[column].value, str) for row in self.rows)

    def _texts(self, escaped: Callable[[str], str], bold: str) -> list[list[str]]:
        return [
            [bold.format(escaped(cell.text)) if cell.best else escaped(cell.text) for cell in row]
            for row in self.rows
        ]


def _raw(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.10g}" if math.isfinite(value) else ""


def duration(seconds: float) -> str:
    """Seconds as a reader says them: 3 ms, 0.25 s, 12 s, 4.1 min, 2.5 h."""
    for limit, unit, text in ((0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.2g} {text}" if seconds / unit < 10 else f"{seconds / unit:.0f} {text}"
    return MISSING


def duration_cell(seconds: float) -> Cell:
    """Seconds, shown as a reader says them."""
    return Cell(seconds, shown=duration(seconds))


def aubc_table(results: Results, metric: str) -> Table:
    """AUBC of every metric, mean ± std over seeds, with average ranks; the best strategy first."""
    order, main = best_first(results, metric), metric_named(metric)
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for name in (metric, *(other for other in results.metrics if other != metric)):
        areas = mean_cells([results.aubc(label, name) for label in order], decimals(results, name))
        higher = metric_named(name).higher
        columns[f"AUBC, {metric_named(name).unit}"] = _marked(results, order, areas, higher)
    ends = mean_cells([results.curves(label, metric)[:, -1] for label in order], decimals(results, metric))
    columns[f"last {main.unit}"] = _marked(results, order, ends, main.higher)
    for title, first in (("rank", False), ("rank, all points", True)):
        ranks = average_ranks(results, metric, first=first)
        columns[title] = _marked(results, order, [Cell(ranks[label]) for label in order], higher=False)
    columns["seeds"] = [Cell(len(results.of(label)), digits=0) for label in order]
    note = (
        f"Area under the budget curve from {results.counts[0]} to {results.counts[-1]} labels, mean ± standard "
        "deviation (n − 1) over seeds. The rank is that of the mean curves at each point, averaged over the points "
        "after the first selection, and over all points."
    )
    if not main.higher:
        note += f" A smaller {main.title} is better."
    if not same_seeds(results):
        note += (
            " Two strategies are ranked, and put in order, by the seeds that both have; means are over all."
        )
    return Table.of(f"AUBC and average ranks, {results.name}", columns, note)


def _marked(results: Results, order: Sequence[str], cells: Sequence[Cell], higher: bool) -> list[Cell]:
    """The best cell marked, among the strategies that have the seeds that most have: others may be lucky."""
    seeds = {label: tuple(results.seeds(label)) for label in results.labels}
    usual = Counter(seeds.values()).most_common(1)[0][0]
    return mark_best(cells, higher=higher, fair=[seeds[label] == usual for label in order])


def mean_cells(samples: Sequence[Floats], digits: int) -> list[Cell]:
    """Mean ± std of each sample; a single value has no spread."""
    return [
        Cell(
            float(sample.mean()) if sample.size else None,
            float(sample.std(ddof=1)) if sample.size > 1 else None,
            digits,
        )
        for sample in samples
    ]


def gain_table(results: Results, metric: str, reference: str, gains: Sequence[Gain]) -> Table:
    """Paired differences of AUBC to a reference, with bootstrap intervals and corrected Wilcoxon tests."""
    rows = sorted(gains, key=lambda each: -np.nan_to_num(each.mean, nan=-np.inf))
    places = decimals(results, metric)
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(each.label) for each in rows],
        "gain": signed_cells([each.mean for each in rows], places),
        "95 % from": signed_cells([each.interval[0] for each in rows], places),
        "to": signed_cells([each.interval[1] for each in rows], places),
        "seeds ahead": [Cell(each.wins, shown=f"{each.wins} of {each.seeds}") for each in rows],
        "Wilcoxon p": [p_cell(each.p) for each in rows],
        "p, Holm": [p_cell(each.p_holm) for each in rows],
    }
    note = (
        "Differences of AUBC seed by seed, turned so that a positive gain is better. Intervals from 10 000 "
        "bootstrap resamples of the seeds; two-sided signed-rank tests, corrected by Holm's method for the "
        "number of rows."
    )
    for few in sorted({each.seeds for each in rows if 1 < each.seeds < MANY_SEEDS}):
        note += f" With {few} seeds no p can be below {2 / 2**few:.3g}, and the intervals are too narrow."
    title = f"Gain in AUBC ({metric_named(metric).unit}) over {reference}, {results.name}"
    return Table.of(title, columns, note)


def win_table(results: Results, wins: Floats) -> Table:
    """The pairwise penalty matrix, the least beaten strategy first."""
    beaten = penalties(wins)
    order = np.argsort(np.nan_to_num(beaten, nan=np.inf), kind="stable")
    names = [results.labels[i] for i in order]
    columns = {"beats": [Cell(name) for name in [*names, "mean of column"]]}
    means = mark_best([Cell(beaten[i]) for i in order], higher=False)
    for name, j, mean in zip(names, order, means, strict=True):
        columns[name] = [*(Cell(float(wins[i, j])) for i in order), mean]
    note = (
        "Share of the points after the first selection at which the row beats the column in a two-sided paired "
        "t-test over the seeds (p < 0.05), as in BADGE's paper. A good strategy has a small column mean. With "
        "two or three seeds the test seldom decides, so a 0 then means little; with one seed there is no test."
    )
    return Table.of(f"Wins and losses, {results.name}", columns, note)


def needs_table(results: Results, metric: str, levels: Sequence[float], baseline: str | None) -> Table:
    """Labels needed for each level, and the share of labels saved against the baseline on the seeds of both."""
    order = best_first(results, metric)
    rows = {label: _needs_row(results, metric, label, levels, baseline) for label in order}
    columns: dict[str, Sequence[Cell]] = {"strategy": [Cell(label) for label in order]}
    for j, level in enumerate(levels):
        title = f"{level:g} %" if metric_named(metric).percent else f"{level:g}"
        columns[title] = _marked(results, order, [rows[label][j] for label in order], higher=False)
    if not same_seeds(results):
        columns["seeds"] = [Cell(len(results.of(label)), digits=0) for label in order]
    note = (
        "Where the mean curve first reaches the level, between points by a straight line; – if it never does."
    )
    if baseline in results.labels:
        note += f" In brackets the change against {baseline}"
        note += "." if same_seeds(results) else " on the seeds that both have."
    title = f"Labels needed to reach a given {metric_named(metric).title}, {results.name}"
    return Table.of(title, columns, note)


def _needs_row(
    results: Results, metric: str, label: str, levels: Sequence[float], baseline: str | None
) -> list[Cell]:
    seeds = shared_seeds(results, label, baseline) if baseline in results.labels and baseline else []
    ratios = np.full(len(levels), np.nan)
    if baseline and seeds:
        mine, theirs = (needs_of(results, metric, name, levels, seeds) for name in (label, baseline))
        ratios = mine / theirs
    cells, first = [], results.counts[0]
    for labels, ratio in zip(needs_of(results, metric, label, levels), ratios, strict=True):
        text = f"≤ {first}" if labels <= first else f"{labels:.0f}"
        change = round(100 * (ratio - 1)) if np.isfinite(ratio) else 0
        shown = f"{text} ({change:+d} %)".replace("-", "−") if change else text
        cells.append(Cell(None) if np.isnan(labels) else Cell(float(labels), digits=0, shown=shown))
    return cells


def time_table(results: Results, times: Sequence[Times]) -> Table:
    """Seconds of selecting and training, the quickest selection first."""
    rows = sorted(times, key=lambda each: (each.select, each.label))
    columns: dict[str, Sequence[Cell]] = {
        "strategy": [Cell(each.label) for each in rows],
        "one selection": [duration_cell(each.select) for each in rows],
        "at the middle cycle": [duration_cell(each.middle) for each in rows],
        "one training": [duration_cell(each.train) for each in rows],
        "whole run": [duration_cell(each.total) for each in rows],
    }
    note = "Means over seeds and cycles; the csv file has seconds."
    if any(np.isfinite(each.passes) for each in rows):
        columns["passes"] = [Cell(each.passes, digits=1) for each in rows]
        note += " Passes: how often a candidate goes through a network, forwards, for one selection."
    if any(np.isfinite(each.memory) for each in rows):
        columns["peak memory, GiB"] = [Cell(each.memory / 2.0**30) for each in rows]
    return Table.of(f"Time, {results.name}", columns, note)


def ratio_table(results: Results, times: Sequence[Times], reference: str) -> Table:
    """Selection times as multiples of the reference's, each of its quickest seed; the quickest first."""
    ratios = over({each.label: each.best for each in times}, reference)
    order = sorted(ratios, key=lambda label: (ratios[label], label))
    columns = {
        "strategy": [Cell(label) for label in order],
        "one selection": [Cell(ratios[label]) for label in order],
    }
    return Table.of(
        f"Time as multiples of {reference}'s, {results.name}", columns, "Each of its quickest seed."
    )


def over(seconds: Mapping[str, float], reference: str) -> dict[str, float]:
    """Everything as a multiple of the reference."""
    base = look_up("strategy among these runs", reference, seconds)
    return {label: value / base for label, value in seconds.items()}
