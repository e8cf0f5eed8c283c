"""Rows of a table as numbers: scaled, words one-hot, gaps filled and said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jostle.datasets.tables import MISSING
from jostle.labelling.contents import Cell

MOST_WORDS = 100  # one-hot columns for one column of words, the most frequent first
RAREST = 2  # a word that only one row has says nothing of the others

Column = NDArray[np.float64]  # (n,)


def coded(rows: Sequence[Mapping[str, Cell]]) -> NDArray[np.float32]:
    """Rows (n, d): numbers with mean 0 and spread 1, gaps at their median with a column that says so, words as 0/1."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [part for name in names for part in coded_column([row.get(name) for row in rows])]
    varied = [column for column in columns if column.std() > 0]
    if not varied:
        return np.zeros((len(rows), 1), dtype=np.float32)
    table = np.stack(varied, axis=1)
    scaled: NDArray[np.float64] = (table - table.mean(0)) / table.std(0)
    return scaled.astype(np.float32)


def coded_column(cells: Sequence[Cell]) -> list[Column]:
    """The columns of numbers that one column of cells becomes."""
    values = [cell_number(cell) for cell in cells]
    gaps = np.array([is_gap(cell) for cell in cells])
    if all(value is not None for value, gap in zip(values, gaps, strict=True) if not gap):
        known = [value for value in values if value is not None]
        middle = float(np.median(known)) if known else 0.0
        filled = np.array([middle if value is None else value for value in values])
        return [filled, gaps.astype(np.float64)]
    words = Counter("" if gap else str(cell) for cell, gap in zip(cells, gaps, strict=True))
    kept = [word for word, count in words.most_common(MOST_WORDS) if count >= RAREST]
    array = np.array(["" if gap else str(cell) for cell, gap in zip(cells, gaps, strict=True)])
    return [(array == word).astype(np.float64) for word in kept]


def is_gap(cell: Cell) -> bool:
    """Whether a cell says that nothing is known."""
    return cell is None or (isinstance(cell, str) and cell.strip() in MISSING)


def cell_number(cell: Cell) -> float | None:
    """A cell's number, None where it is none."""
    if is_gap(cell):
        return None
    try:
        value = float(cell)  # type: ignore[arg-type]
    except ValueError:
        return None
    return value if math.isfinite(value) else None
