"""Pools in Parquet files: a column of pictures, texts, token ids or numbers, read row group by row group.

Only the rows of a batch are read, so a pool may be larger than memory. A shard is a few file names and row groups. An
example's position counts rows over all files in the order of their names, whatever the number of shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from jostle.datasets.arrow_files import (
    ParquetColumns,
    absolute,
    class_names,
    find_row_groups,
    is_picture_column,
    name_classes,
    picture_bytes,
)
from jostle.datasets.binary_files import Frame, make_frame, read_image
from jostle.datasets.data import Batch, Data, Split, batch_row
from jostle.datasets.fetch import DataError, File, Member
from jostle.datasets.images import THREADS, Pixels, per_channel, standardize
from jostle.datasets.tables import encode_targets, load_tokenizer, tokenize_texts
from jostle.utils.names import unknown

Kind = Literal["images", "texts", "tokens", "numbers"]


@dataclass(frozen=True)
class Reading:
    """Conversion of the values of a column to inputs."""

    kind: Kind
    frame: Frame
    scale: float = 1
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    encoder: str | None = None
    length: int = 128
    shape: tuple[int, ...] = ()


class ParquetInputs:
    """Examples of Parquet files as batches, by position."""

    by_batch = True

    def __init__(self, columns: ParquetColumns, reading: Reading) -> None:
        self.columns, self.reading = columns, reading

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def stamps(self) -> str:
        """The columns, their files and how they are read, in words that change with them."""
        return f"{self.columns.stamps} {self.columns.names} {self.reading}"

    @property
    def starts(self) -> list[int]:
        """Positions of the first examples of row groups, at which batches and shards may be cut."""
        return self.columns.starts

    def part(self, start: int, stop: int) -> ParquetInputs:
        """The examples between two positions, counted from the first of them, by absolute paths."""
        encoder = self.reading.encoder
        if encoder is not None and Path(encoder).is_dir():  # else a name of the hub
            encoder = absolute(encoder)
        return ParquetInputs(self.columns.part(start, stop), replace(self.reading, encoder=encoder))

    def __getitem__(self, index: int | Tensor) -> Batch:
        if not isinstance(index, Tensor) or not index.dim():
            return batch_row(self[torch.tensor([int(index)])], 0)
        positions = index.tolist()
        if self.reading.kind == "images":
            return self._images(positions)
        if self.reading.kind == "numbers":
            return self._numbers(positions)
        return self._texts(positions) if self.reading.kind == "texts" else self._tokens(positions)

    def files(self, positions: Sequence[int]) -> list[File]:
        """The pictures at some positions, as files with their content in memory."""
        (values,) = self.columns.values(positions)
        return [self._file(position, value) for position, value in zip(positions, values, strict=True)]

    def _file(self, position: int, value: Any) -> File:
        """The bytes of a cell, or of the file that a Hugging Face cell names by its path."""
        group = self.columns.group_at(position)
        name = f"row {position - group.start} of row group {group.number}"
        found = picture_bytes(value, Path(group.file).parent)
        if found is None:
            raise DataError(f"{group.file}: {name} holds neither bytes nor the path of a file beside it")
        return Member(Path(group.file), name, found) if isinstance(found, bytes) else found

    def originals(self, positions: Sequence[int]) -> Iterator[Any]:
        """The examples as they were written: pictures, texts, or tensors of numbers and token ids."""
        if self.reading.kind == "images":
            files = self.files(positions)
            with ThreadPoolExecutor(max(1, min(THREADS, len(files)))) as workers:
                yield from workers.map(read_image, files)
        elif self.reading.kind == "texts":
            yield from (text or "" for text in self.columns.values(positions)[0])
        elif self.reading.kind == "tokens":
            yield from (torch.tensor(ids) for ids in self.columns.values(positions)[0])
        else:
            yield from self._numbers(positions).clone()

    def _images(self, positions: Sequence[int]) -> Tensor:
        reading = self.reading
        pixels = Pixels(self.files(positions), reading.frame, keep_bytes=0)
        white = 255 / reading.scale
        return standardize(pixels[torch.arange(len(positions))], reading.mean, reading.std, white)

    def _texts(self, positions: Sequence[int]) -> dict[str, Tensor]:
        encoder = self.reading.encoder
        if encoder is None:
            raise DataError("texts need the model whose tokenizer reads them: pass encoder= (--encoder)")
        (texts,) = self.columns.values(positions)
        return tokenize_texts(load_tokenizer(encoder), [(text or "",) for text in texts], self.reading.length)

    def _tokens(self, positions: Sequence[int]) -> dict[str, Tensor]:
        (lists,) = self.columns.values(positions)
        rows = [torch.tensor(list(ids)[: self.reading.length], dtype=torch.int64) for ids in lists]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        return {"input_ids": padded, "attention_mask": mask.long()}

    def _numbers(self, positions: Sequence[int]) -> Tensor:
        n = len(positions)
        columns = [_number_rows(self.columns.array(name, positions), name, n) for name in self.columns.names]
        rows = columns[0] if len(columns) == 1 else torch.cat([each.reshape(n, -1) for each in columns], 1)
        rows = rows.float() if rows.is_floating_point() else rows
        return rows.reshape(n, *self.reading.shape) if self.reading.shape else rows

    def preview(self, position: int) -> Image.Image | str:
        """The example at a `position` as people know it: a picture, a text, or its values."""
        if self.reading.kind == "images":
            return read_image(self.files([position])[0], self.reading.frame)
        return ", ".join(str(column[0]) for column in self.columns.values([position]))

    def __str__(self) -> str:
        return f"{self.reading.kind} of {', '.join(self.columns.names)}"


class ParquetNames(Sequence[str]):
    """Ids of examples, read from a column where they are asked for; positions where there is no such column."""

    def __init__(self, columns: ParquetColumns | None, count: int, first: int = 0) -> None:
        self.columns, self.length, self.first = columns, count, first

    def part(self, start: int, stop: int) -> ParquetNames:
        """The ids from `start` up to `stop`, which stay as they are."""
        columns = None if self.columns is None else self.columns.part(start, stop)
        return ParquetNames(columns, stop - start, self.first + start)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: Any) -> Any:
        if not isinstance(position, slice):
            return self._read([range(self.length)[position]])[0]
        return self._read(range(self.length)[position])

    def __iter__(self) -> Iterator[str]:
        yield from self[:]

    def _read(self, positions: Sequence[int]) -> list[str]:
        if self.columns is None:
            return [str(self.first + position) for position in positions]
        return [str(name) for name in self.columns.values(positions)[0]]


def parquet(
    path: str | Path,
    column: str | None = None,
    id: str | None = None,
    kind: Kind | None = None,
    size: int | Sequence[int] | None = None,
    mode: Literal["RGB", "L"] = "RGB",
    scale: float = 1,
    mean: float | Sequence[float] = 0,
    std: float | Sequence[float] = 1,
    short: int | None = None,
    shape: Sequence[int] = (),
    encoder: str | None = None,
    length: int = 128,
    target: str | None = None,
    task: str | None = None,
    classes: Sequence[str] | None = None,
    test: float | None = None,
) -> Data:
    """Parquet files as a pool: pictures, texts, token ids or numbers, in the order of files and rows.

    Args:
        path: A file, a folder, or a pattern such as pool/*.parquet.
        column: The column to read, or several with + between them (numbers); None: the only one that can be meant.
        id: A column of names for examples; None: their positions.
        kind: "images" (bytes, or Hugging Face's struct of bytes and path), "texts", "tokens" (lists of ids) or
            "numbers"; None: by the column's type.
        size: As for a folder: a number is the side of the square that is cut out of the middle, a pair (height, width)
            stretches, None keeps the size.
        mode: "RGB" or "L" (gray).
        scale: The value of white; black is 0.
        mean: Subtracted from the pixels after that, one number or one for each channel.
        std: The pixels are divided by it then, one number or one for each channel.
        short: Length of the short side before the square is cut out; None: `size` itself.
        shape: The shape of one example, for numbers that are written as a flat list.
        encoder: For texts: the folder or hub name of the model whose tokenizer reads them.
        length: The most tokens of an example.
        target: The column of labels, for a labeled set; None: there are no labels.
        task: The name of a task; None: numbers as labels of numbers mean regression, all else classification.
        classes: The classes in the order of the model's outputs; None: as Hugging Face wrote them, else by name.
        test: Nothing can be held out of a pool; only None is taken.
    """
    if test is not None:
        raise DataError("parquet: is a pool, of which nothing is held out; leave test out")
    groups, schema = find_row_groups(str(path))
    able = [name for name in schema.names if name not in (id, target)]
    if column is None and len(able) != 1:
        raise DataError(f"say which column= holds the examples: {', '.join(schema.names)}")
    names = tuple(column.split("+") if column else able)
    for name in (*names, *(extra for extra in (id, target) if extra)):
        if name not in schema.names:
            raise DataError(str(unknown(f"column of {path}", name, schema.names)))
    found = kind or _column_kind(schema.field(names[0]).type, names[0])
    means, stds = per_channel("mean", mean, mode), per_channel("std", std, mode)
    frame = make_frame(size, short, mode)
    reading = Reading(found, frame, scale, means, stds, encoder, length, tuple(shape))
    inputs = ParquetInputs(ParquetColumns(groups, names), reading)
    ids = ParquetNames(ParquetColumns(groups, (id,)) if id else None, len(inputs))
    told, targets, labels = None, torch.empty(0), tuple[str, ...]()
    if target is not None:
        cells, written = (
            ParquetColumns(groups, (target,)).values(range(len(inputs)))[0],
            class_names(schema, target),
        )
        words = ["" if cell is None else str(cell) for cell in name_classes(cells, written)]
        task = task or (None if found == "numbers" else "classification")
        told, targets, labels = encode_targets(Path(str(path)), {target: words}, task, classes or written)
    scalar = found == "numbers" and not any(_is_list(schema.field(name).type) for name in names)
    train = Split(inputs, targets, ids, numbered=id is None)
    constants = (means, stds) if found == "images" else ((), ())
    return Data(
        f"parquet:{path}", told, train, Split(torch.empty(0), torch.empty(0)), labels, *constants,
        columns=names if scalar else (),
    )  # fmt: skip


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind))


def _column_kind(kind: Any, name: str) -> Kind:
    """Return the kind of examples in a column of this type."""
    import pyarrow.types as types

    if is_picture_column(kind):
        return "images"
    if types.is_string(kind) or types.is_large_string(kind):
        return "texts"
    inner = kind
    while _is_list(inner):
        inner = inner.value_type
    if types.is_integer(inner) and (types.is_list(kind) or types.is_large_list(kind)):
        return "tokens"
    if types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner):
        return "numbers"
    raise DataError(
        f"column {name!r} is {kind}; expected bytes of images, texts, lists of token ids or numbers"
    )


def _number_rows(array: Any, name: str, count: int) -> Tensor:
    """Convert an Arrow array of numbers, or of lists of equally many numbers, to a tensor (count, d)."""
    flat = array
    while _is_list(flat.type):
        flat = flat.flatten()
    if flat.null_count or array.null_count:
        raise DataError(f"column {name!r} has empty cells: fill them first")
    values = np.array(flat.to_numpy(zero_copy_only=False))
    if values.size % max(1, count):
        raise DataError(f"column {name!r} holds lists of unequal length: pad them, or pass kind=tokens")
    return torch.from_numpy(
        values.reshape(count, -1) if values.size != count or flat is not array else values[:, None]
    )
