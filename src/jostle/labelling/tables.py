"""Tables as sources: a row of a csv or Parquet file is an example, shown as its texts or as its fields.

Only where rows begin is kept of a csv, not the rows: a large table takes little memory.
"""

from __future__ import annotations

import csv
import math
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jostle.labelling.contents import Cell, Content, ContentKind
from jostle.labelling.source import SourceError
from jostle.plumbing.names import unknown

Row = Mapping[str, Cell]
USUAL_TEXTS = (("text",), ("text1", "text2"))


@dataclass
class Listing:
    """What was found when the file had a certain stamp."""

    stamp: str = ""
    rows: dict[str, int] = field(default_factory=dict)  # name -> number of the row
    keys: dict[str, str] = field(default_factory=dict)  # name -> key of its content


class Table(ABC):
    """A file of rows; it is read again when its size or time has changed."""

    def __init__(self, path: Path, texts: tuple[str, ...], hide: tuple[str, ...]) -> None:
        self.path, self.hide = path, hide
        self._lock = threading.Lock()
        self._listing = Listing()
        header = self.header()
        for name in (*texts, *hide):
            if name not in header:
                raise unknown(f"column of {path.name}", name, header)
        if len(texts) > 2:
            raise SourceError(f"a text is one column or a pair; got {', '.join(texts)}")
        usual = next((names for names in USUAL_TEXTS if set(names) <= set(header) - set(hide)), ())
        self.texts = texts or usual
        self.kind: ContentKind = "text" if self.texts else "row"
        self.id = next((name for name in header if name.lower() == "id"), None)

    @abstractmethod
    def header(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All rows in order, remembering where they lie."""

    @abstractmethod
    def row(self, number: int) -> Row:
        """One row, as it was when `rows` last passed it."""

    def places(self) -> dict[str, str]:
        """The key of every row; a row that moves keeps its key, and its answers."""
        return dict(self.listing().keys)

    def listing(self) -> Listing:
        """The rows as the file is now."""
        with self._lock:
            status = self.path.stat()
            stamp = f"{status.st_size}-{status.st_mtime_ns}"
            if self._listing.stamp != stamp:
                self._listing = self._listed(stamp)
            return self._listing

    def _listed(self, stamp: str) -> Listing:
        keys, ids = [], []
        for row in self.rows():
            keys.append(self.content("", row).key)
            ids.append("" if self.id is None else str(row[self.id]))
        if not keys:
            raise SourceError(f"{self.path} has no rows")
        often = Counter(ids)
        names = [
            identity if identity and often[identity] == 1 else f"row {number + 1}"
            for number, identity in enumerate(ids)
        ]
        return Listing(stamp, {name: i for i, name in enumerate(names)}, dict(zip(names, keys, strict=True)))

    def content(self, name: str, row: Row) -> Content:
        """A row as it is shown: its texts, or all fields but the hidden ones and the id."""
        if self.texts:
            return Content("text", name, texts=tuple(str(row[column] or "") for column in self.texts))
        fields = {
            column: cell for column, cell in row.items() if column not in self.hide and column != self.id
        }
        return Content("row", name, fields=fields)

    def read(self, name: str) -> Content:
        """One row."""
        listing = self.listing()
        return self.content(name, self.row(listing.rows[name]))

    def contents(self) -> Iterator[Content]:
        """Every row, in one pass over the file."""
        names = list(self.listing().rows)
        yield from (self.content(name, row) for name, row in zip(names, self.rows(), strict=True))

    def column(self, column: str) -> dict[str, Cell]:
        """One column's cells by row."""
        header = self.header()
        if column not in header:
            raise unknown(f"column of {self.path.name}", column, header)
        names = list(self.listing().rows)
        return {name: row[column] for name, row in zip(names, self.rows(), strict=True)}


class CsvTable(Table):
    """A csv in UTF-8 with a header; every cell is a word, as it stands."""

    def header(self) -> list[str]:
        """The first line."""
        _, names = next(self._records(), (0, []))
        if not names or len(set(names)) != len(names):
            raise SourceError(
                f"{self.path}: expected a first line of distinct column names; found {names[:5]}"
            )
        return names

    def rows(self) -> Iterator[Row]:
        """Every row, with the byte at which its first line begins noted."""
        starts: list[int] = []
        records = self._records()
        _, header = next(records, (0, []))
        for start, cells in records:
            starts.append(start)
            yield dict(zip(header, cells, strict=True))
        self._starts, self._header = starts, header

    def row(self, number: int) -> Row:
        """Read from where the row begins."""
        _, cells = next(self._records(self._starts[number]))
        return dict(zip(self._header, cells, strict=True))

    def _records(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Where each record begins, and its cells; empty lines are none."""
        with self.path.open("rb") as file:
            file.seek(start)
            place = start

            def lines() -> Iterator[str]:
                nonlocal place
                for line in file:
                    first, place = place == 0, place + len(line)
                    yield line.decode("utf-8-sig" if first else "utf-8")

            reader, width = csv.reader(lines(), strict=True), 0
            try:
                for cells in reader:
                    width = width or len(cells)
                    if cells and len(cells) != width:
                        where = f"{self.path}, line {reader.line_num}"
                        raise SourceError(f"{where}: {len(cells)} cells where the header has {width}")
                    if cells:
                        yield start, cells
                    start = place
            except (UnicodeDecodeError, csv.Error) as reason:
                raise SourceError(
                    f"{self.path} cannot be read, expected a csv in UTF-8: {reason}"
                ) from reason


class ParquetTable(Table):
    """A Parquet file; numbers, words, truth values and gaps as they are, everything else as words."""

    def header(self) -> list[str]:
        """The names in the file's schema."""
        return list(parquet().read_schema(self.path).names)

    def rows(self) -> Iterator[Row]:
        """Every row; the columns stay in memory as Arrow holds them."""
        self._rows = parquet().read_table(self.path)
        for batch in self._rows.to_batches(max_chunksize=1000):
            yield from (plain_row(row) for row in batch.to_pylist())

    def row(self, number: int) -> Row:
        """One row."""
        return plain_row(self._rows.slice(number, 1).to_pylist()[0])


def parquet() -> Any:
    """The reader of Parquet files, or an error that names the extra."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise SourceError("Parquet needs pyarrow: pip install 'jostle[label]'") from None
    return parquet


def plain_row(row: Mapping[str, Any]) -> dict[str, Cell]:
    """A row of cells that can be shown and written down."""
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
