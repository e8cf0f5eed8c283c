"""The reader of csv and Parquet files: columns by name, rows by number, row groups by position.

Nothing here needs torch. Only the places of rows are kept in memory, never the whole file, so a table may be larger
than memory.
"""

from __future__ import annotations

import bisect
import csv
import glob
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from jostle.datasets.fetch import DataError
from jostle.utils.names import cached_property

MAX_GROUPS_HELD = 2  # row groups in memory: batches follow each other within one

Cell = str | float | int | bool | None
Row = Mapping[str, Cell]


class TableFile(Protocol):
    """A file of rows with named columns."""

    def header(self) -> list[str]:
        """The names of the columns."""

    def rows(self) -> Iterator[Row]:
        """All rows in order."""

    def row(self, number: int) -> Row:
        """One row, as it was when `rows` last read the file to its end."""


def open_table(path: Path) -> TableFile:
    """The reader of a csv or Parquet file, by the ending of its name."""
    return ParquetFile(path) if path.suffix.lower() == ".parquet" else CsvFile(path)


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
    return {name: [cells[place] for cells in rows] for place, name in enumerate(header)}


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
    """A Parquet file; numbers, strings, truth values and gaps as they are, everything else as strings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._groups: tuple[RowGroup, ...] = ()

    def header(self) -> list[str]:
        """The names in the file's schema."""
        with open_parquet(str(self.path)) as opened:
            return list(opened.schema_arrow.names)

    def rows(self) -> Iterator[Row]:
        """All rows in order, a row group at a time."""
        self._groups, schema = find_row_groups(str(self.path))
        for group in self._groups:
            for batch in read_row_group(group.file, group.number, tuple(schema.names)).to_batches(1000):
                yield from (plain_row(row) for row in batch.to_pylist())

    def row(self, number: int) -> Row:
        """One row, of which only the row group is read."""
        place = bisect.bisect_right([group.start for group in self._groups], number) - 1
        group = self._groups[place]
        table = read_row_group(group.file, group.number, tuple(self.header()))
        return plain_row(table.slice(number - group.start, 1).to_pylist()[0])


def plain_row(row: Mapping[str, Any]) -> dict[str, Cell]:
    """A row of cells that can be shown and stored: values of other types become strings, NaN a gap."""
    return {name: _plain_cell(value) for name, value in row.items()}


def _plain_cell(value: Any) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


class RowGroup(NamedTuple):
    """A row group of a Parquet file: the unit of reading and of work."""

    file: str
    number: int
    """Which row group of the file."""
    start: int
    """The position of its first example."""
    rows: int


@dataclass(frozen=True, eq=False)
class ParquetColumns:
    """Some columns of row groups, by the positions of rows over all files."""

    groups: tuple[RowGroup, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return sum(group.rows for group in self.groups)

    @cached_property
    def starts(self) -> list[int]:
        """Positions of the first rows of the groups."""
        return [group.start for group in self.groups]

    @property
    def stamps(self) -> list[tuple[str, ...]]:
        """The files, each with numbers that change with its content."""
        files = dict.fromkeys(group.file for group in self.groups)
        return [(file, *map(str, file_stamp(file))) for file in files]

    def part(self, start: int, stop: int) -> ParquetColumns:
        """The groups between two positions, counted from the first of these, by absolute paths."""
        groups = (g for g in self.groups if g.start < stop and start < g.start + g.rows)
        moved = (g._replace(file=absolute(g.file), start=g.start - start) for g in groups)
        return replace(self, groups=tuple(moved))

    def group_at(self, position: int) -> RowGroup:
        """The row group that holds a position."""
        return self.groups[bisect.bisect_right(self.starts, position) - 1]

    def values(self, positions: Sequence[int]) -> list[list[Any]]:
        """The values of the columns at some positions, column by column."""
        return [self.array(name, positions).to_pylist() for name in self.names]

    def array(self, name: str, positions: Sequence[int]) -> Any:
        """A column at some positions, as an Arrow array."""
        import pyarrow as pa

        found = []
        for group, run in itertools.groupby(positions, self.group_at):
            table = read_row_group(group.file, group.number, self.names)
            found.append(table.column(name).take(pa.array([p - group.start for p in run])))
        chunks = [chunk for each in found for chunk in each.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([])


def import_parquet() -> Any:
    """Import pyarrow's Parquet module.

    Raises:
        ImportError: pyarrow is not installed; the message says what to install.
    """
    try:
        import pyarrow.parquet
    except ImportError as reason:
        raise ImportError("Parquet files need pyarrow: pip install 'jostle[label]'") from reason
    return pyarrow.parquet


@contextmanager
def open_parquet(file: str) -> Iterator[Any]:
    """Open a Parquet file of this machine or, with `s3://` and the like, of a store that pyarrow knows."""
    system, path = _filesystem(file)
    try:
        with import_parquet().ParquetFile(path, filesystem=system) as opened:
            yield opened
    except (OSError, ValueError) as reason:  # pyarrow's errors are among these
        raise DataError(f"{file} is not a Parquet file that can be read: {reason}") from reason


def _filesystem(path: str) -> tuple[Any, str]:
    """The file system of an address and the path in it; None for a path of this machine."""
    if "://" not in path:
        return None, path
    from pyarrow.fs import FileSystem

    system, inside = FileSystem.from_uri(path)
    return system, inside


def absolute(path: str) -> str:
    """A path or an address that means the same in every folder of this machine."""
    return path if "://" in path else str(Path(path).absolute())


def find_parquet_files(pattern: str) -> list[str]:
    """The files that a path, a folder, a pattern or an address names, in the order of their names."""
    if "://" not in pattern:
        path = Path(pattern)
        return sorted(glob.glob(str(path / "*.parquet") if path.is_dir() else pattern, recursive=True))
    from pyarrow.fs import FileSelector, FileType

    scheme, _, rest = pattern.partition("://")
    fixed = rest if not set(rest) & set("*?[") else rest.rpartition("/")[0]
    system, folder = _filesystem(f"{scheme}://{fixed}")
    if system.get_file_info(folder).type == FileType.File:
        return [pattern]
    wanted = rest.rpartition("/")[2] if fixed != rest else "*.parquet"
    found = [f.path for f in system.get_file_info(FileSelector(folder)) if f.type == FileType.File]
    names = sorted(path.rpartition("/")[2] for path in found)
    return [f"{scheme}://{fixed.rstrip('/')}/{name}" for name in names if fnmatchcase(name, wanted)]


def find_row_groups(pattern: str) -> tuple[tuple[RowGroup, ...], Any]:
    """All row groups of the files that a path or pattern names, and the first file's schema."""
    found = find_parquet_files(pattern)
    if not found:
        raise DataError(
            f"no Parquet file at {pattern}: give a file, a folder or a pattern such as pool/*.parquet"
        )
    groups, schema, start = list[RowGroup](), None, 0
    for file in found:
        with open_parquet(file) as opened:
            footer, here = opened.metadata, opened.schema_arrow
        schema = here if schema is None else schema
        for number in range(footer.num_row_groups):
            rows = footer.row_group(number).num_rows
            groups += [RowGroup(file, number, start, rows)] if rows else []
            start += rows
    if not groups:
        raise DataError(f"{pattern} holds no rows")
    return tuple(groups), schema


def read_row_group(file: str, number: int, names: tuple[str, ...]) -> Any:
    """Some columns of a row group as an Arrow table; the last few are kept while their files do not change."""
    try:
        table = _read_row_group(file, number, names, *file_stamp(file))
    except OSError as reason:
        raise DataError(f"{file} cannot be read (row group {number}): {reason}") from reason
    if absent := [name for name in names if name not in table.column_names]:
        raise DataError(f"{file} has no column {absent[0]!r}, which the first file has")
    return table


@lru_cache(maxsize=MAX_GROUPS_HELD)
def _read_row_group(file: str, number: int, names: tuple[str, ...], *stamp: int) -> Any:
    with open_parquet(file) as opened:
        return opened.read_row_group(number, columns=list(names))


def file_stamp(file: str) -> tuple[int, ...]:
    """Inode, size and time of a file of this machine, which change with it; nothing for an address."""
    if "://" in file:
        return ()
    found = Path(file).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
