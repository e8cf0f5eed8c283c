"""Which examples of a pool are known already: the same file, the same row."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from jostle.datasets.data import Data, Fields, Inputs
from jostle.datasets.images import File, ImageFiles, Member
from jostle.datasets.text import Texts
from jostle.datasets.transforms import Transformed

ROWS = 1024  # read at once


def shared(pool: Data, known: Data) -> Tensor:
    """Positions of the pool's examples that `known` holds too.

    Image files are the same if they are one file or have the same content; rows with ids on both sides if they have the
    same id; all others if they have the same content. A row number is no id.
    """
    ours, theirs = _inputs(pool), _inputs(known)
    if isinstance(ours, ImageFiles) and isinstance(theirs, ImageFiles):
        return _places(_same_files(ours.pixels.files, theirs.pixels.files))
    if _has_ids(pool) and _has_ids(known):
        ids = set(known.train.names)
        return _places([name in ids for name in pool.train.names])
    tables = bool(pool.columns and known.columns)
    contents = set(_contents(theirs, known.columns if tables else ()))
    return _places([row in contents for row in _contents(ours, pool.columns if tables else ())])


def positions_named(pool: Data, names: Collection[str]) -> Tensor:
    """Positions of the pool's examples that go by one of these names."""
    wanted = set(names)
    return _places([pool.names(position) in wanted for position in range(len(pool.train))])


def _places(known: Sequence[bool]) -> Tensor:
    return torch.tensor(known, dtype=torch.bool).nonzero().flatten()


def _inputs(data: Data) -> Inputs:
    inputs = data.train.inputs
    return inputs.inputs if isinstance(inputs, Transformed) else inputs


def _has_ids(data: Data) -> bool:
    return bool(data.train.names) and not data.train.numbered


def _same_files(ours: Sequence[File], theirs: Sequence[File]) -> list[bool]:
    """Which of our files are among theirs; only files of equal size need to be read."""
    paths = {os.path.realpath(file) for file in theirs if isinstance(file, Path)}
    sizes = {_size(file) for file in theirs} & {_size(file) for file in ours}
    sums = {_sum(file) for file in theirs if _size(file) in sizes}
    return [
        (isinstance(file, Path) and os.path.realpath(file) in paths)
        or (_size(file) in sizes and _sum(file) in sums)
        for file in ours
    ]


def _size(file: File) -> int:
    return len(file.content) if isinstance(file, Member) else file.stat().st_size


def _sum(file: File) -> bytes:
    content = file.content if isinstance(file, Member) else file.read_bytes()
    return hashlib.sha256(content).digest()


def _contents(inputs: Inputs, columns: Sequence[str]) -> list[Hashable]:
    """What tells rows apart; of tables their values by column, as words that do not occur have no column."""
    if isinstance(inputs, Texts):
        return list(inputs.rows)
    if isinstance(inputs, Fields) and inputs.texts:
        return list(inputs.texts)
    if isinstance(inputs, Fields):
        return [_bytes(_unpadded(inputs, position)) for position in range(len(inputs))]
    found: list[Hashable] = []
    for positions in torch.arange(len(inputs)).split(ROWS):
        batch = inputs[positions]
        parts = batch if isinstance(batch, dict) else {"": batch}
        for place in range(len(positions)):
            row = {name: part[place] for name, part in parts.items()}
            found.append(_cells(row[""], columns) if columns else _bytes(row))
    return found


def _unpadded(fields: Fields, position: int) -> dict[str, Tensor]:
    """One row without its padding, which is wider where a longer text stands beside it."""
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
