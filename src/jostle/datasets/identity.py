"""Which examples of a pool are in the labeled set already, by content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Hashable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from jostle.datasets.data import Data, Fields, Inputs
from jostle.datasets.fetch import File, Member
from jostle.datasets.images import ImageFiles
from jostle.datasets.parquet import ParquetInputs
from jostle.datasets.text import Texts
from jostle.datasets.transforms import Transformed
from jostle.inputs.sources import parted

ROWS = 1024  # read at once


def find_shared(pool: Data, known: Data) -> Tensor:
    """Return the positions of the pool's examples that `known` holds too, whatever kind of file they come from.

    Pictures are the same if they are one file or have the same bytes, texts if they have the same words. Rows with ids
    on both sides are the same if they have the same id. Everything else is the same if the model gets the same
    numbers. A row number is no id.
    """
    ours, theirs = _inputs(pool), _inputs(known)
    if _has_pictures(ours) and _has_pictures(theirs):
        return _places(_same_files(ours, theirs))
    if _has_ids(pool) and _has_ids(known):
        ids = set(known.train.names)
        return _places([name in ids for name in pool.train.names])
    if _has_texts(ours) and _has_texts(theirs):
        texts = set(_texts(theirs))
        return _places([text in texts for text in _texts(ours)])
    tables = bool(pool.columns and known.columns)
    contents = set(_contents(theirs, known.columns if tables else ()))
    return _places([row in contents for row in _contents(ours, pool.columns if tables else ())])


def find_named(pool: Data, names: Collection[str]) -> Tensor:
    """Return the positions of the pool's examples with one of these names."""
    wanted = set(names)
    return _places([pool.names(position) in wanted for position in range(len(pool.train))])


def _places(known: Sequence[bool]) -> Tensor:
    return torch.tensor(known, dtype=torch.bool).nonzero().flatten()


def _inputs(data: Data) -> Inputs:
    inputs = data.train.inputs
    return inputs.inputs if isinstance(inputs, Transformed) else inputs


def _has_ids(data: Data) -> bool:
    return bool(data.train.names) and not data.train.numbered


def _has_pictures(inputs: Inputs) -> bool:
    return isinstance(inputs, ImageFiles) or (
        isinstance(inputs, ParquetInputs) and inputs.reading.kind == "images"
    )


def _has_texts(inputs: Inputs) -> bool:
    if isinstance(inputs, ParquetInputs):
        return inputs.reading.kind == "texts"
    return isinstance(inputs, Texts) or (isinstance(inputs, Fields) and bool(inputs.texts))


def _texts(inputs: Inputs) -> Iterator[str]:
    """Yield the texts of all examples; the two of a pair on lines of their own."""
    if isinstance(inputs, ParquetInputs):
        for positions in _batches(inputs):
            yield from inputs.originals(positions.tolist())
    elif isinstance(inputs, Fields):
        yield from inputs.texts
    elif isinstance(inputs, Texts):
        yield from (inputs.preview(position) for position in range(len(inputs)))


def _files(inputs: Inputs) -> Iterator[File]:
    """Yield the files of all pictures, of a Parquet file a batch at a time."""
    if isinstance(inputs, ImageFiles):
        yield from inputs.pixels.files
    elif isinstance(inputs, ParquetInputs):
        for positions in _batches(inputs):
            yield from inputs.files(positions.tolist())


def _batches(inputs: Inputs) -> Iterator[Tensor]:
    """Yield the positions of all examples, a batch at a time; no batch lies in two row groups."""
    for part in parted(torch.arange(len(inputs)), getattr(inputs, "starts", ())):
        yield from part.split(ROWS)


def _same_files(ours: Inputs, theirs: Inputs) -> list[bool]:
    """Return which of our files are among theirs; only files of equal size are compared."""
    paths, sizes, sums = set[str](), set[int](), set[bytes]()
    for file in _files(theirs):
        paths |= {os.path.realpath(file)} if isinstance(file, Path) else set()
        sizes.add(_size(file))
        sums.add(_sum(file))
    return [
        (isinstance(file, Path) and os.path.realpath(file) in paths)
        or (_size(file) in sizes and _sum(file) in sums)
        for file in _files(ours)
    ]


def _size(file: File) -> int:
    return len(file.content) if isinstance(file, Member) else file.stat().st_size


def _sum(file: File) -> bytes:
    content = file.content if isinstance(file, Member) else file.read_bytes()
    return hashlib.sha256(content).digest()


def _contents(inputs: Inputs, columns: Sequence[str]) -> list[Hashable]:
    """Return the content of each row; of tables by column, since words that do not occur have no column."""
    if isinstance(inputs, Fields):
        return [_bytes(_unpadded(inputs, position)) for position in range(len(inputs))]
    found: list[Hashable] = []
    for positions in _batches(inputs):
        batch = inputs[positions]
        parts = batch if isinstance(batch, dict) else {"": batch}
        for place in range(len(positions)):
            row = {name: part[place] for name, part in parts.items()}
            found.append(_cells(row[""], columns) if columns else _bytes(row))
    return found


def _unpadded(fields: Fields, position: int) -> dict[str, Tensor]:
    """Return one row without its padding, whose width depends on the texts beside it."""
    row = fields[position]
    if fields.mask is None:
        return row
    used = row[fields.mask].bool()
    return {name: part[used] if part.shape == used.shape else part for name, part in row.items()}


def _cells(row: Tensor, columns: Sequence[str]) -> Hashable:
    return frozenset(pair for pair in zip(columns, row.tolist(), strict=True) if pair[1])


def _bytes(row: dict[str, Tensor]) -> Hashable:
    whole = hashlib.sha256()
    for name, part in sorted(row.items()):
        whole.update(f"{name} {part.dtype} {tuple(part.shape)} ".encode())
        whole.update(part.detach().cpu().contiguous().numpy().tobytes())
    return whole.digest()
