"""Cells of a csv that a spreadsheet may open: no name becomes a formula, and every one reads back as it was."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what a spreadsheet would reckon, or what hides it already
HIDDEN = re.compile(r"'+[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|nan")


def sheet(rows: Iterable[Sequence[object]]) -> str:
    """Rows as csv; an apostrophe stands before what would be a formula, and numbers stay numbers."""
    return "".join(_line([hidden(str(cell)) for cell in row]) for row in rows)


def hidden(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def unhidden(cell: str) -> str:
    """The cell that `hidden` was given."""
    return cell[1:] if HIDDEN.match(cell) else cell


def has_columns(head: bytes, columns: Sequence[str]) -> bool:
    """Whether a file begins with the names of these columns and of no other: a column more is somebody's work."""
    return head.splitlines()[:1] == [",".join(columns).encode()]


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)  # quotes a carriage return only where lines end with one
    return text.getvalue().removesuffix("\r\n") + "\n"
