"""The encoder of tables: columns of numbers stay numbers, categories become one-hot columns. Nothing here needs torch.

`jostle pick`, `run` and `label` encode by the same rules, so a column means the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jostle.datasets.table_files import Cell

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})
MAX_CATEGORIES = 1000  # one-hot columns of one column
MIN_ROWS_OF_NAMES = 20  # in fewer rows, a few categories may all be different
MIN_WORDS_OF_TEXT = 4  # on average
HOLDS_TEXTS = "it holds texts"

Columns = Mapping[str, Sequence[Cell]]  # name -> cells, all of one length


@dataclass(frozen=True)
class Encoding:
    """A table as numbers."""

    features: NDArray[np.float32]
    """One row for each row of the table, (n, d)."""
    names: tuple[str, ...]
    """The names of the features: a column's own, or column=category."""
    with_gaps: tuple[str, ...] = ()
    """Columns that are left out because cells are missing."""
    no_categories: Mapping[str, str] = field(default_factory=dict)
    """Columns of words that are left out because they hold texts or names, each with the reason."""


def encode_table(columns: Columns, *, fill_gaps: bool = False) -> Encoding:
    """Encode columns as features: numbers first, as they are, then one 0/1 column for each category.

    A column is numeric if all its cells are numbers. Any other column is a category, unless its cells are texts (mostly
    different, four words or more), names (mostly different) or of more than 1,000 kinds.

    Args:
        columns: Cells by column.
        fill_gaps: Fill missing numbers with the median and add a column that marks them, and take a missing word for a
            category; default: leave out columns with missing cells.
    """
    gaps = {name: np.array([is_missing(cell) for cell in cells], bool) for name, cells in columns.items()}
    whole = {name: cells for name, cells in columns.items() if fill_gaps or not gaps[name].any()}
    numeric = {name: cells for name, cells in whole.items() if is_numeric(cells)}
    features: list[NDArray[np.float32]] = []
    names: list[str] = []
    for name, cells in numeric.items():
        features.append(_filled_numbers(cells).astype(np.float32))
        names.append(name)
        if gaps[name].any():
            features.append(gaps[name].astype(np.float32))
            names.append(f"{name} is missing")
    reasons: dict[str, str] = {}
    for name in [name for name in whole if name not in numeric]:
        words = ["" if gap else str(cell) for cell, gap in zip(whole[name], gaps[name], strict=True)]
        if reason := why_not_categories(words):
            reasons[name] = reason
            continue
        array = np.array(words)
        for category in sorted(set(words)):
            features.append((array == category).astype(np.float32))
            names.append(f"{name}={category}")
    length = len(next(iter(columns.values()), ()))
    table = np.stack(features, axis=1) if features else np.zeros((length, 0), np.float32)  # (n, d)
    return Encoding(table, tuple(names), tuple(name for name in columns if name not in whole), reasons)


def why_not_categories(words: Sequence[str]) -> str:
    """Return why a column of words is not a set of categories; empty if it is one."""
    kinds, n = len(set(words)), len(words)
    if kinds > n / 2 and sum(len(word.split()) for word in words) >= MIN_WORDS_OF_TEXT * n:
        return HOLDS_TEXTS
    if kinds > n / 2 and n >= MIN_ROWS_OF_NAMES:
        return f"it has {kinds} different words in {n} rows"
    return f"it has {kinds} different words" if kinds > MAX_CATEGORIES else ""


def is_missing(cell: Cell) -> bool:
    """Return whether a cell is missing: empty, NA, NaN or null."""
    return cell is None or (isinstance(cell, str) and cell.strip() in MISSING)


def is_numeric(cells: Sequence[Cell]) -> bool:
    """Return whether all cells that are not missing are finite numbers."""
    return all(number(cell) is not None for cell in cells if not is_missing(cell))


def number(cell: Cell) -> float | None:
    """Return the number in a cell; None if it is missing, a word or not finite."""
    if is_missing(cell):
        return None
    try:
        value = float(cell)  # type: ignore[arg-type]
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _filled_numbers(cells: Sequence[Cell]) -> NDArray[np.float64]:
    values = [number(cell) for cell in cells]
    known = [value for value in values if value is not None]
    median = float(np.median(known)) if len(known) < len(values) and known else 0.0
    return np.array([median if value is None else value for value in values])
