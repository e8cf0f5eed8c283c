"""One small table, written as Markdown, LaTeX, CSV, HTML or plain rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TypeGuard

from jostle.utils.files import sheet

__all__ = ["Cell", "Table"]


MISSING = "–"
_LATEX = {
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


def mark_best(cells: Sequence[Cell], *, higher: bool) -> list[Cell]:
    """Mark the best of a column, and whatever equal to it at the digits shown."""
    rounded = [settle(cell.value, cell.digits) if _known(cell.value) else None for cell in cells]
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
    def of(cls, title: str, columns: dict[str, Sequence[Cell]], note: str = "") -> "Table":
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
        header = [_pipes(column) for column in self.columns]
        rule = ["---:" if self._numeric(i) else "---" for i in range(len(self.columns))]
        rows = [header, rule, *self._texts(_pipes, "**{}**")]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else []), ""])

    def latex(self) -> str:
        """A `table` environment; needs the booktabs package."""
        align = "".join("r" if self._numeric(i) else "l" for i in range(len(self.columns)))
        rows = [" & ".join(row) + r" \\" for row in self._texts(_tex, r"\textbf{{{}}}")]
        caption = _tex(self.title + (". " + self.note if self.note else ""))
        lines = [
            r"\begin{table}[tb]",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \begin{{tabular}}{{{align}}}",
            r"  \toprule",
            "  " + " & ".join(map(_tex, self.columns)) + r" \\",
            r"  \midrule",
            *("  " + row for row in rows),
            r"  \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Every value at full precision; a spread has a column of its own."""
        spread = [any(_known(row[i].spread) for row in self.rows) for i in range(len(self.columns))]
        header = [
            [column, f"{column} std"] if wide else [column]
            for column, wide in zip(self.columns, spread, strict=True)
        ]
        lines: list[list[object]] = [[name for names in header for name in names]]
        for row in self.rows:
            cells = [
                [cell.value, cell.spread] if wide else [cell.value]
                for cell, wide in zip(row, spread, strict=True)
            ]
            lines.append([_raw(value) for values in cells for value in values])
        return sheet(lines)

    def html(self, colors: Mapping[str, str] | None = None) -> str:
        """A `<table>`; cells of numbers have the class `number`, and names that have one of the `colors` a chip."""
        heads = [
            f"<th scope='col'{self._class(i)}>{escape(name)}</th>" for i, name in enumerate(self.columns)
        ]
        rows = ["<tr>" + self._html_row(row, colors or {}) + "</tr>" for row in self.rows]
        body = "\n".join(rows)
        return f"<table>\n<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _html_row(self, row: tuple[Cell, ...], colors: Mapping[str, str]) -> str:
        name = row[0].text
        chip = f"<i class='chip' style='background:{colors[name]}'></i>" if name in colors else ""
        cells = [f"<th scope='row'>{chip}{escape(name)}</th>"]
        for i, cell in enumerate(row[1:], start=1):
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            cells.append(f"<td{self._class(i)}>{text}</td>")
        return "".join(cells)

    def _class(self, column: int) -> str:
        return " class='number'" if self._numeric(column) else ""

    def _numeric(self, column: int) -> bool:
        return not all(isinstance(row[column].value, str) for row in self.rows)

    def _texts(self, escaped: Callable[[str], str], bold: str) -> list[list[str]]:
        return [
            [bold.format(escaped(cell.text)) if cell.best else escaped(cell.text) for cell in row]
            for row in self.rows
        ]


def _pipes(text: str) -> str:
    return text.replace("|", r"\|")


def _tex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _raw(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.10g}" if math.isfinite(value) else ""


def duration(seconds: float) -> str:
    """Seconds as a reader says them: 3 ms, 0.25 s, 12 s, 4.1 min, 2.5 h."""
    for limit, unit, text in ((0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.2g} {text}" if seconds / unit < 10 else f"{seconds / unit:.0f} {text}"
    return "–"
