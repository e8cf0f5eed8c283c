"""Tables without torch: the reader of csv and Parquet files, and the encoder of their columns as numbers.

Only the places of rows are kept in memory, never the whole file, so a table may be larger than memory. `jostle pick`,
`run` and `label` encode by the same rules, so a column means the same in all of them: numbers stay numbers, categories
become one-hot columns.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jostle.datasets.arrow_files import (
    ParquetColumns,
    class_names,
    file_stamp,
    find_parquet_files,
    find_row_groups,
    name_classes,
    read_row_group,
)
from jostle.datasets.fetch import DataError

Cell = str | float | int | bool | None
Row = Mapping[str, Cell]
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})
MAX_CATEGORIES = 1000  # one-hot columns of one column
MIN_ROWS_OF_NAMES = 20  # in fewer rows, a few categories may all be different
MIN_WORDS_OF_TEXT = 4  # on average
HOLDS_TEXTS = "it holds texts"

Columns = Mapping[str, Sequence[Cell]]  # name -> cells, all of one length


class TableFile(Protocol):
    """A file of rows with named columns."""

    def header(self) -> list[str]:
        """The names of the columns."""

    def rows(self) -> Iterator[Row]:
        """All rows in order."""

    def row(self, number: int) -> Row:
        """One row, as it was when `rows` last read the file to its end."""

    def column(self, name: str) -> list[Any]:
        """All cells of a column; class numbers of Hugging Face as names."""

    def stamp(self) -> str:
        """Words that change with the content."""


def open_table(path: Path) -> TableFile:
    """The reader of a csv or Parquet file, by the ending of its name; a folder holds Parquet or Arrow files."""
    return CsvFile(path) if path.suffix.lower() == ".csv" and not path.is_dir() else ParquetFile(path)


def read_csv(path: Path) -> dict[str, list[str]]:
    """The columns of a csv by name; every cell is a string.

    Raises:
        DataError: The file is no csv in UTF-8 with a header, has no rows, or has rows of different widths.
    """
    file = CsvFile(path)
    header = file.header()
    rows = [cells for _, cells in itertools.islice(file.records(), 1, None)]
    if not rows:
        raise DataError(f"{path}: expected a line of distinct column names, then rows; found no rows")
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


class CsvFile:
    """A csv in UTF-8 with a header; every cell is a string."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts: list[int] = []
        self._header: list[str] = []

    def header(self) -> list[str]:
        """The names in the first line."""
        _, names = next(self.records(), (0, []))
        if not names or len(set(names)) != len(names):
            raise DataError(
                f"{self.path}: expected a line of distinct column names, then rows; found {names[:5]}"
            )
        return names

    def rows(self) -> Iterator[Row]:
        """All rows in order; the byte at which each begins is kept."""
        starts: list[int] = []
        records = self.records()
        _, header = next(records, (0, []))
        for start, cells in records:
            starts.append(start)
            yield dict(zip(header, cells, strict=True))
        self._starts, self._header = starts, header

    def row(self, number: int) -> Row:
        """One row, read from the byte at which it begins."""
        _, cells = next(self.records(self._starts[number]))
        return dict(zip(self._header, cells, strict=True))

    def column(self, name: str) -> list[Any]:
        """All cells of a column."""
        return [row[name] for row in self.rows()]

    def stamp(self) -> str:
        """Inode, size and time of the file."""
        return str(file_stamp(str(self.path)))

    def records(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """The first byte and the cells of each record from byte `start` on; empty lines are left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                place = start

                def lines() -> Iterator[str]:
                    nonlocal place
                    for line in file:
                        first, place = place == 0, place + len(line)
                        yield line.decode("utf-8-sig" if first else "utf-8")

                reader, width = csv.reader(lines(), strict=True), 0
                for cells in reader:
                    width = width or len(cells)
                    if cells and len(cells) != width:
                        raise DataError(
                            f"{self.path}, line {reader.line_num}: {len(cells)} cells where the header has {width}"
                        )
                    if cells:
                        yield start, cells
                    start = place
        except (OSError, UnicodeDecodeError, csv.Error) as reason:
            raise DataError(f"{self.path} cannot be read, expected a csv in UTF-8: {reason}") from reason


class ParquetFile:
    """Parquet files, or a saved data set; numbers, strings, truth values and gaps as they are, the rest as strings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns = ParquetColumns((), ())

    def header(self) -> list[str]:
        """The names in the schema."""
        return list(find_row_groups(str(self.path))[1].names)

    def rows(self) -> Iterator[Row]:
        """All rows in order, a row group at a time."""
        groups, schema = find_row_groups(str(self.path))
        self._columns = ParquetColumns(groups, tuple(schema.names))
        for group in groups:
            for batch in read_row_group(group.file, group.number, self._columns.names).to_batches(1000):
                yield from (plain_row(row) for row in batch.to_pylist())

    def row(self, number: int) -> Row:
        """One row, of which only the row group is read."""
        cells = self._columns.values([number])
        return plain_row({name: cell for name, (cell,) in zip(self._columns.names, cells, strict=True)})

    def column(self, name: str) -> list[Any]:
        """All cells of a column; class numbers of Hugging Face as names."""
        groups, schema = find_row_groups(str(self.path))
        columns = ParquetColumns(groups, (name,))
        return name_classes(columns.values(range(len(columns)))[0], class_names(schema, name))

    def stamp(self) -> str:
        """Inode, size and time of all files."""
        return str([file_stamp(file) for file in find_parquet_files(str(self.path))])


def plain_row(row: Mapping[str, Any]) -> dict[str, Cell]:
    """A row of cells that can be shown and stored: values of other types become strings, NaN a gap."""
    plain: dict[str, Cell] = {}
    for name, value in row.items():
        gap = value is None or (isinstance(value, float) and not math.isfinite(value))
        plain[name] = None if gap else value if isinstance(value, str | int | float | bool) else str(value)
    return plain


@dataclass(frozen=True)
class Encoding:
    """A table as numbers."""

    features: NDArray[np.float32]
    """One row for each row of the table, (n, d)."""
    names: tuple[str, ...]
    """The names of the features: a column's own, or column=category."""
    no_categories: Mapping[str, str]
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
    features = list[tuple[str, NDArray[Any]]]()
    for name, cells in numeric.items():
        features.append((name, _filled_numbers(cells)))
        if gaps[name].any():
            features.append((f"{name} is missing", gaps[name]))
    reasons = dict[str, str]()
    for name in [name for name in whole if name not in numeric]:
        words = ["" if gap else str(cell) for cell, gap in zip(whole[name], gaps[name], strict=True)]
        if reason := why_not_categories(words):
            reasons[name] = reason
        else:
            array = np.array(words)
            features += [(f"{name}={category}", array == category) for category in sorted(set(words))]
    table = np.zeros((len(next(iter(columns.values()), ())), len(features)), np.float32)  # (n, d)
    for place, (_, feature) in enumerate(features):
        table[:, place] = feature
    return Encoding(table, tuple(name for name, _ in features), reasons)


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
    try:
        value = math.nan if is_missing(cell) else float(cell)  # type: ignore[arg-type]
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _filled_numbers(cells: Sequence[Cell]) -> NDArray[np.float64]:
    values = [number(cell) for cell in cells]
    known = [value for value in values if value is not None]
    median = float(np.median(known)) if len(known) < len(values) and known else 0.0
    return np.array([median if value is None else value for value in values])
