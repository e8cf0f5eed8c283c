"""Picks on disk: a csv with the name of each, its position in the pool, its order and its score."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from jostle.utils.files import has_columns, sheet, unhidden

if TYPE_CHECKING:
    from jostle.core import Query
    from jostle.datasets import Data

COLUMNS = ("name", "position", "order", "score")


def as_csv(query: Query, data: Data) -> str:
    """The picks in their order: file name or row id, position in the pool, order, score."""
    pairs = zip(query.indices.tolist(), query.scores.tolist(), strict=True)
    rows = [(data.names(place), place, order, score) for order, (place, score) in enumerate(pairs)]
    return sheet([COLUMNS, *rows])


def is_picks(head: bytes) -> bool:
    """Whether a file begins as `as_csv` does."""
    return has_columns(head, COLUMNS)


def names_in(path: Path) -> list[str]:
    """The names of earlier picks, or their positions where the csv has no names."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path} cannot be read, expected the csv of earlier picks: {reason}") from None
    column = next((name for name in COLUMNS[:2] if rows and name in rows[0]), None)
    if rows and column is None:
        raise ValueError(f"{path} has no column name or position, expected the csv of earlier picks")
    return [unhidden(row[column] or "") for row in rows if column is not None]
