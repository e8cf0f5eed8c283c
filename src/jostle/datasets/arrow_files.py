"""Row groups of Parquet files: which there are, and some columns of them by the positions of rows over all files.

A folder that Hugging Face's `save_to_disk` wrote is read alike; the record batches of its Arrow files are the groups.
"""

from __future__ import annotations

import bisect
import glob
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from jostle.datasets.fetch import DataError
from jostle.utils.files import is_image
from jostle.utils.names import cached_property

MAX_GROUPS_HELD = 2  # row groups in memory: batches follow each other within one


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


def holds_arrow(path: Path) -> bool:
    """Whether a path of this machine is a Parquet file, a folder by `save_to_disk`, or one of Parquet files alone."""
    if not path.is_dir():
        return path.suffix.lower() == ".parquet" and path.is_file()
    if any((path / mark).is_file() for mark in ("state.json", "dataset_dict.json")):
        return True
    held = list(path.iterdir())  # pictures beside a table are no part of it
    return any(each.suffix.lower() == ".parquet" for each in held) and not any(
        each.is_dir() or is_image(each) for each in held
    )


def find_parquet_files(pattern: str) -> list[str]:
    """The files that a path, a folder, a pattern or an address names, in the order of their names."""
    if "://" not in pattern:
        path = Path(pattern)
        if (saved := _saved_files(path)) is not None:
            return saved
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


def _saved_files(folder: Path) -> list[str] | None:
    """The Arrow files of a data set that `save_to_disk` wrote, in order; None if the folder is no such data set."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(each.parent.name for each in folder.glob("*/state.json"))
        raise DataError(f"{folder} holds {len(splits)} data sets: name one of {', '.join(splits)} in it")
    try:
        files = json.loads((folder / "state.json").read_text(encoding="utf-8"))["_data_files"]
        return [str(folder / PurePath(each["filename"]).name) for each in files]
    except OSError:
        return None
    except (KeyError, TypeError, ValueError) as reason:
        raise DataError(f"{folder}/state.json is not as `save_to_disk` writes it: {reason}") from reason


def find_row_groups(pattern: str) -> tuple[tuple[RowGroup, ...], Any]:
    """All row groups of the files that a path or pattern names, and the first file's schema."""
    groups, schemas, start = list[RowGroup](), list[Any](), 0
    for file in find_parquet_files(pattern):
        if file.endswith(".arrow"):
            batches, schema = _record_batches(file, *file_stamp(file))
            sizes = [batch.num_rows for batch in batches]
        else:
            with open_parquet(file) as opened:
                footer, schema = opened.metadata, opened.schema_arrow
                sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        schemas.append(schema)
        for number, rows in enumerate(sizes):
            groups += [RowGroup(file, number, start, rows)] if rows else []
            start += rows
    if not schemas:
        raise DataError(
            f"no Parquet file at {pattern}: give a file, a folder or a pattern such as pool/*.parquet"
        )
    if not groups:
        raise DataError(f"{pattern} holds no rows")
    return tuple(groups), schemas[0]


@lru_cache(maxsize=MAX_GROUPS_HELD)
def _record_batches(file: str, *stamp: int) -> tuple[list[Any], Any]:
    """Record batches of an Arrow file, which stay on disk until they are used, and its schema."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_stream(pa.memory_map(file))
        return list(reader), reader.schema
    except (OSError, ValueError) as reason:  # pyarrow's errors are among these
        raise DataError(f"{file} is not an Arrow file that can be read: {reason}") from reason


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
    if file.endswith(".arrow"):
        import pyarrow as pa

        batch = _record_batches(file, *stamp)[0][number]
        return pa.Table.from_batches([batch]).select([name for name in names if name in batch.schema.names])
    with open_parquet(file) as opened:
        return opened.read_row_group(number, columns=list(names))


def file_stamp(file: str) -> tuple[int, ...]:
    """Inode, size and time of a file of this machine, which change with it; nothing for an address."""
    if "://" in file:
        return ()
    found = Path(file).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def class_names(schema: Any, column: str) -> list[str] | None:
    """The names of classes that Hugging Face writes beside class numbers; None if there are none."""
    try:
        written = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"][column]
        return [str(name) for name in written.get("feature", written)["names"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def name_classes(cells: Sequence[Any], names: Sequence[str] | None) -> list[Any]:
    """Cells with names in place of class numbers, if every number has one."""
    named: dict[Any, Any] = {None: None, -1: None}  # -1 is what Hugging Face writes for an unknown class
    named |= enumerate(names or ())
    flat = [each for cell in cells for each in (cell if isinstance(cell, list) else [cell])]
    if not names or not all(each is None or (type(each) is int and each in named) for each in flat):
        return list(cells)
    return [[named[each] for each in cell] if isinstance(cell, list) else named[cell] for cell in cells]


def is_picture_column(kind: Any) -> bool:
    """Whether a column of this type holds pictures: Hugging Face's struct of bytes and path, or bytes alone."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return {"bytes", "path"} <= {field.name for field in kind}
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def picture_bytes(value: Any, folder: Path) -> bytes | Path | None:
    """The picture in a cell: its bytes, or the file below `folder` that it names; None if it has neither."""
    content = value.get("bytes") if isinstance(value, dict) else value
    if content is not None:
        return bytes(content)
    path = PurePath(value.get("path") or "") if value else PurePath()
    return folder / path if path.name and not path.is_absolute() and ".." not in path.parts else None


def picture_paths(groups: Sequence[RowGroup], column: str) -> Iterator[str | None]:
    """The paths beside the bytes of pictures, without reading the bytes; None for a picture without one."""
    import pyarrow.types as types

    for group in groups:
        if group.file.endswith(".arrow"):
            table = read_row_group(group.file, group.number, (column,))
        else:
            with open_parquet(group.file) as opened:
                inner = f"{column}.path" if types.is_struct(opened.schema_arrow.field(column).type) else None
                table = opened.read_row_group(group.number, columns=[inner]) if inner else None
        if table is None or not types.is_struct(table.schema.field(column).type):
            yield from [None] * group.rows
        else:
            for chunk in table.column(column).chunks:
                yield from chunk.field("path").to_pylist()
