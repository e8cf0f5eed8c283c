"""Embeddings on disk: computed once for each content, whatever file it lies in, and kept with the project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jostle.labelling.contents import KEY_BYTES, Content, digest
from jostle.labelling.encoders import Encoder, Vectors
from jostle.labelling.index import GoneError, Index, Progress
from jostle.labelling.pictures import UnreadableError

BATCH = 32  # examples that are encoded, and written, at a time


class VectorFile:
    """Rows by key in a file that only grows, a record after the other; a torn record at its end is cut off.

    One process writes at a time. Rows are kept with 16 bits: a probe does not need more.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.slug = f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')[-40:]}-{digest(name.encode())[:8]}"
        self._places: dict[str, int] = {}

    def path(self) -> Path | None:
        """The file, whose name ends with the width of a row; None before the first row."""
        return next(iter(sorted(self.folder.glob(f"{self.slug}-*.rows"))), None)

    def known(self) -> dict[str, int]:
        """The place of every key that is there."""
        records = self._records()
        for place in range(len(self._places), len(records)):
            self._places[records["key"][place].tobytes().hex()] = place
        return self._places

    def add(self, keys: Sequence[str], rows: Vectors) -> None:
        """Append rows."""
        width = rows.shape[1]
        path = self.path() or self.folder / f"{self.slug}-{width}.rows"
        records = np.empty(len(keys), dtype=record(width))
        records["key"] = [np.void(bytes.fromhex(key)) for key in keys]
        records["row"] = rows
        self.folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(file.tell() - file.tell() % records.itemsize)
            file.write(records.tobytes())

    def take(self, keys: Sequence[str]) -> Vectors:
        """The rows of these keys, all of which are there, (n, d) float32."""
        places = self.known()
        return self._records()["row"][[places[key] for key in keys]].astype(np.float32)

    def _records(self) -> NDArray[Any]:
        path = self.path()
        if path is None:
            return np.empty(0, dtype=record(0))
        kind = record(int(path.stem.rpartition("-")[2]))
        count = path.stat().st_size // kind.itemsize
        return np.memmap(path, dtype=kind, mode="r", shape=(count,)) if count else np.empty(0, dtype=kind)


def record(width: int) -> np.dtype[Any]:
    """A key and its row."""
    return np.dtype([("key", f"V{KEY_BYTES}"), ("row", np.float16, (width,))])


def embed(
    index: Index, encoder: Encoder, file: VectorFile, keys: Sequence[str], progress: Progress | None = None
) -> None:
    """Compute the rows that are missing; examples that turn out to be unreadable are marked as such."""
    known = file.known()
    missing = [key for key in keys if key not in known]
    for start in range(0, len(missing), BATCH):
        ready, names = [], []
        for key in missing[start : start + BATCH]:
            content = _content(index, key)
            if content is None:
                continue
            try:
                ready.append(encoder.read(content))
                names.append(key)
            except UnreadableError as reason:
                index.spoil(key, str(reason))
        if ready:
            file.add(names, encoder.encode(ready))
        if progress is not None:
            progress("encoding", min(start + BATCH, len(missing)), len(missing))


def _content(index: Index, key: str) -> Content | None:
    try:
        return index.content(key)
    except GoneError:
        return None
