"""Pools in Parquet files: a column of image bytes, texts, token ids or numbers, read row group by row group.

Only what a batch asks for is read, and only the files' footers are known of the rest: a pool may be larger than memory,
and a shard of it is a few file names and row groups. An example's position counts rows over all files in the order of
their names, whatever the number of shards.
"""

from __future__ import annotations

import bisect
import glob
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jostle.datasets.data import Batch, Data, Split
from jostle.datasets.errors import DataError
from jostle.datasets.images import Member, Pixels, Stretched, standardised
from jostle.datasets.text import tokenizer_of, tokens_of
from jostle.plumbing.once import cached_property

KEPT = 2  # row groups that are held at once: batches follow each other within one


class Group(NamedTuple):
    """A row group: the unit of reading and of work."""

    file: str
    number: int
    """Which row group of the file."""
    start: int
    """The position of its first example."""
    rows: int


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of row groups, by position."""

    groups: tuple[Group, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return sum(group.rows for group in self.groups)

    @cached_property
    def starts(self) -> list[int]:
        """Positions of the first examples of the groups."""
        return [group.start for group in self.groups]

    @property
    def stamps(self) -> list[tuple[str, ...]]:
        """The files, and what changes with them."""
        files = dict.fromkeys(group.file for group in self.groups)
        return [(file, *map(str, stamp(file))) for file in files]

    def part(self, start: int, stop: int) -> Columns:
        """The groups that hold what lies between two positions, counted from the first of these."""
        groups = (g for g in self.groups if g.start < stop and start < g.start + g.rows)
        moved = (g._replace(file=anywhere(g.file), start=g.start - start) for g in groups)
        return replace(self, groups=tuple(moved))

    def values(self, positions: Tensor) -> list[list[Any]]:
        """What the columns hold at some positions, column by column."""
        return [self.array(name, positions).to_pylist() for name in self.names]

    def array(self, name: str, positions: Tensor) -> Any:
        """A column at some positions, as an Arrow array."""
        import pyarrow as pa

        found = []
        wanted = positions.tolist()
        for group, run in itertools.groupby(wanted, lambda p: bisect.bisect_right(self.starts, p) - 1):
            held = self.groups[group]
            table = read_group(held.file, held.number, self.names)
            found.append(table.column(name).take(pa.array([p - held.start for p in run])))
        chunks = [chunk for each in found for chunk in each.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([])


def parquet_files() -> Any:
    """pyarrow's Parquet module, or an error that says what to install."""
    try:
        import pyarrow.parquet
    except ImportError as reason:
        raise ImportError("parquet: needs pyarrow: pip install jostle[ray]") from reason
    return pyarrow.parquet


@contextmanager
def opened_file(file: str) -> Iterator[Any]:
    """A Parquet file, of this machine or, with `s3://` and the like, of a store that pyarrow knows."""
    where, path = filesystem_of(file)
    with parquet_files().ParquetFile(path, filesystem=where) as opened:
        yield opened


def filesystem_of(path: str) -> tuple[Any, str]:
    """The file system of an address and the path in it; None for a path of this machine."""
    if "://" not in path:
        return None, path
    from pyarrow.fs import FileSystem

    where, inside = FileSystem.from_uri(path)
    return where, inside


def anywhere(path: str) -> str:
    """A path or an address that means the same in every folder of this machine."""
    return path if "://" in path else str(Path(path).absolute())


def files_at(pattern: str) -> list[str]:
    """The files that a path, a folder, a pattern or an address names, in the order of their names."""
    if "://" not in pattern:
        path = Path(pattern)
        return sorted(glob.glob(str(path / "*.parquet") if path.is_dir() else pattern, recursive=True))
    from pyarrow.fs import FileSelector, FileType

    scheme, _, rest = pattern.partition("://")
    fixed = rest if not set(rest) & set("*?[") else rest.rpartition("/")[0]
    where, folder = filesystem_of(f"{scheme}://{fixed}")
    if where.get_file_info(folder).type == FileType.File:
        return [pattern]
    wanted = rest.rpartition("/")[2] if fixed != rest else "*.parquet"
    found = [f.path for f in where.get_file_info(FileSelector(folder)) if f.type == FileType.File]
    names = sorted(path.rpartition("/")[2] for path in found)
    return [f"{scheme}://{fixed.rstrip('/')}/{name}" for name in names if fnmatchcase(name, wanted)]


def read_group(file: str, number: int, names: tuple[str, ...]) -> Any:
    """A row group's columns; whatever is wrong is an error that names the file."""
    try:
        return _group(file, number, names, *stamp(file))
    except (OSError, ValueError) as reason:  # pyarrow's errors are among these
        raise DataError(f"{file} cannot be read (row group {number}): {reason}") from reason


@lru_cache(maxsize=KEPT)
def _group(file: str, number: int, names: tuple[str, ...], *stamp: int) -> Any:
    with opened_file(file) as opened:
        return opened.read_row_group(number, columns=list(names))


def stamp(file: str) -> tuple[int, ...]:
    """What changes with a file of this machine."""
    if "://" in file:
        return ()
    found = Path(file).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def row_groups(pattern: str) -> tuple[tuple[Group, ...], Any]:
    """All row groups of the files that a path or pattern names, and the first file's schema."""
    found = files_at(pattern)
    if not found:
        raise DataError(
            f"no Parquet file at {pattern}: give a file, a folder or a pattern such as pool/*.parquet"
        )
    groups, schema, start = list[Group](), None, 0
    for file in found:
        try:
            with opened_file(file) as opened:
                footer, here = opened.metadata, opened.schema_arrow
        except (OSError, ValueError) as reason:
            raise DataError(f"{file} is not a Parquet file that can be read: {reason}") from reason
        if schema is None:
            schema = here
        for number in range(footer.num_row_groups):
            rows = footer.row_group(number).num_rows
            groups += [Group(file, number, start, rows)] if rows else []
            start += rows
    if not groups:
        raise DataError(f"{pattern} holds no rows")
    return tuple(groups), schema


class ParquetInputs:
    """Examples of Parquet files as batches, by position; `kind` says what a column's values are."""

    by_batch = True

    def __init__(self, columns: Columns, kind: str, settings: Reading) -> None:
        self.columns, self.kind, self.settings = columns, kind, settings

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def stamps(self) -> str:
        """What is read, and from which files, in words that change with them."""
        return f"{self.columns.stamps} {self.columns.names} {self.kind} {self.settings}"

    @property
    def starts(self) -> list[int]:
        """Where batches and shards may be cut: positions of the first examples of row groups."""
        return self.columns.starts

    def part(self, start: int, stop: int) -> ParquetInputs:
        """What lies between two positions, counted from the first of them, by paths that hold in any folder."""
        encoder = self.settings.encoder
        if encoder is not None and Path(encoder).is_dir():  # else a name of the hub
            encoder = anywhere(encoder)
        columns, settings = self.columns.part(start, stop), replace(self.settings, encoder=encoder)
        return ParquetInputs(columns, self.kind, settings)

    def __getitem__(self, index: int | Tensor) -> Batch:
        if not isinstance(index, Tensor) or not index.dim():
            one = self[torch.tensor([int(index)])]
            return {key: column[0] for key, column in one.items()} if isinstance(one, dict) else one[0]
        return getattr(self, f"_{self.kind}")(index.cpu())  # type: ignore[no-any-return]

    def _images(self, index: Tensor) -> Tensor:
        reading = self.settings
        pixels = Pixels(self._members(index), Stretched(reading.size, reading.mode), keep_bytes=0)
        shown = pixels[torch.arange(len(index))]
        zeros, ones = (0.0,) * shown.shape[1], (1.0,) * shown.shape[1]
        return standardised(shown, zeros, ones, 255 / reading.scale)

    def _members(self, index: Tensor) -> list[Member]:
        (contents,) = self.columns.values(index)
        groups = [self.columns.groups[bisect.bisect_right(self.starts, p) - 1] for p in index.tolist()]
        return [
            Member(Path(group.file), f"row {position - group.start} of row group {group.number}", content)
            for group, position, content in zip(groups, index.tolist(), contents, strict=True)
        ]

    def _texts(self, index: Tensor) -> dict[str, Tensor]:
        encoder = self.settings.encoder
        if encoder is None:
            raise DataError("texts need the model whose tokeniser reads them: say encoder= (--encoder)")
        (texts,) = self.columns.values(index)
        return tokens_of(tokenizer_of(encoder), [(text or "",) for text in texts], self.settings.length)

    def _tokens(self, index: Tensor) -> dict[str, Tensor]:
        (lists,) = self.columns.values(index)
        rows = [torch.tensor(list(ids)[: self.settings.length], dtype=torch.int64) for ids in lists]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        return {"input_ids": padded, "attention_mask": mask.long()}

    def _numbers(self, index: Tensor) -> Tensor:
        made = [numbers(self.columns.array(name, index), name, len(index)) for name in self.columns.names]
        rows = made[0] if len(made) == 1 else torch.cat([each.reshape(len(index), -1) for each in made], 1)
        rows = rows.float() if rows.is_floating_point() else rows
        return rows.reshape(len(index), *self.settings.shape) if self.settings.shape else rows

    def preview(self, position: int) -> Any:
        """One example as people know it: an image, a text, or its values."""
        if self.kind == "images":
            reading = self.settings
            return Pixels(
                self._members(torch.tensor([position])), Stretched(reading.size, reading.mode)
            ).image(0)
        return ", ".join(str(column[0]) for column in self.columns.values(torch.tensor([position])))

    def __str__(self) -> str:
        return f"{self.kind} of {', '.join(self.columns.names)}"


@dataclass(frozen=True)
class Reading:
    """How values become inputs."""

    size: tuple[int, int] | None = None
    mode: str = "RGB"
    scale: float = 1
    encoder: str | None = None
    length: int = 128
    shape: tuple[int, ...] = ()


def numbers(array: Any, name: str, count: int) -> Tensor:
    """An Arrow array of numbers, or of lists of as many numbers each, as a tensor."""
    import pyarrow as pa

    flat = array
    while (
        pa.types.is_list(flat.type)
        or pa.types.is_fixed_size_list(flat.type)
        or pa.types.is_large_list(flat.type)
    ):
        flat = flat.flatten()
    if flat.null_count or array.null_count:
        raise DataError(f"column {name!r} has empty cells: fill them first")
    values = np.array(flat.to_numpy(zero_copy_only=False))
    if values.size % max(1, count):
        raise DataError(f"column {name!r} holds lists of unequal length: pad them, or say kind=tokens")
    return torch.from_numpy(
        values.reshape(count, -1) if values.size != count or flat is not array else values[:, None]
    )


class Names(Sequence[str]):
    """Ids of examples, read where they are asked for: from a column, or positions."""

    def __init__(self, columns: Columns | None, count: int, first: int = 0) -> None:
        self.columns, self.length, self.first = columns, count, first

    def part(self, start: int, stop: int) -> Names:
        """Those from `start` up to `stop`, which keep their names."""
        columns = None if self.columns is None else self.columns.part(start, stop)
        return Names(columns, stop - start, self.first + start)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[p] for p in range(*position.indices(self.length))]
        if not 0 <= position < self.length:
            raise IndexError(position)
        return (
            str(self.first + position)
            if self.columns is None
            else str(self.columns.values(torch.tensor([position]))[0][0])
        )


def parquet(
    path: str | Path,
    column: str | None = None,
    id: str | None = None,
    kind: Literal["images", "texts", "tokens", "numbers"] | None = None,
    size: int | Sequence[int] | None = None,
    mode: Literal["RGB", "L"] = "RGB",
    scale: float = 1,
    shape: Sequence[int] = (),
    encoder: str | None = None,
    length: int = 128,
    test: float | None = None,
) -> Data:
    """Parquet files as a pool: images as bytes, texts, token ids or numbers, in the order of files and rows.

    Args:
        path: A file, a folder, or a pattern such as pool/*.parquet.
        column: The column to read, or several with + between them (numbers); None: the only one that can be meant.
        id: A column of names for examples; None: their positions.
        kind: "images" (bytes), "texts", "tokens" (lists of ids) or "numbers"; None: as the column's type tells.
        size: Height and width that images are brought to, or one number for both; None: as they are.
        mode: "RGB" or "L" (grey).
        scale: What white becomes; black is 0.
        shape: The shape of one example, for numbers that are written as a flat list.
        encoder: For texts: the folder or hub name of the model whose tokeniser reads them.
        length: The most tokens of an example.
        test: Nothing can be held out of a pool; only None is taken.
    """
    if test is not None:
        raise DataError("parquet: is a pool, of which nothing is held out; leave test out")
    groups, schema = row_groups(str(path))
    names = tuple(column.split("+")) if column else (the_column(schema, id),)
    for name in (*names, *([id] if id else [])):
        if name not in schema.names:
            raise DataError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
    found = kind or kind_of(schema.field(names[0]).type, names[0])
    sides = None if size is None else (size, size) if isinstance(size, int) else (size[0], size[1])
    reading = Reading(sides, mode, scale, encoder, length, tuple(shape))
    inputs = ParquetInputs(Columns(groups, names), found, reading)
    ids = Names(Columns(groups, (id,)) if id else None, len(inputs))
    nothing = torch.empty(0)
    train = Split(inputs, nothing, ids, numbered=id is None)
    return Data(f"parquet:{path}", None, train, Split(torch.empty(0), nothing))


def the_column(schema: Any, id: str | None) -> str:
    """The only column that can be meant, or an error that names those that there are."""
    able = [name for name in schema.names if name != id]
    if len(able) != 1:
        raise DataError(f"say which column= holds the examples: {', '.join(schema.names)}")
    return str(able[0])


def kind_of(kind: Any, name: str) -> str:
    """What a column of this type is taken for."""
    import pyarrow as pa

    inner = kind
    while pa.types.is_list(inner) or pa.types.is_fixed_size_list(inner) or pa.types.is_large_list(inner):
        inner = inner.value_type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "images"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "texts"
    if pa.types.is_integer(inner) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return "tokens"
    if pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_boolean(inner):
        return "numbers"
    raise DataError(
        f"column {name!r} is {kind}; expected bytes of images, texts, lists of token ids or numbers"
    )
