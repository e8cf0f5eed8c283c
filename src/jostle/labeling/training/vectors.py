"""Rows of encoded examples: a file that keeps them by key, and the loop that computes the missing ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jostle.labeling.sources.contents import KEY_BYTES, UnreadableError, digest
from jostle.labeling.sources.index import GoneError, Index, ProgressCallback
from jostle.labeling.training.encoders import Encoder, Vectors

ENCODE_BATCH = 32  # examples that are encoded, and written, at a time
READERS = 2  # threads that read examples


class VectorFile:
    """Rows by key in a file that only grows; an incomplete record at its end is cut off.

    One process writes at a time. Rows are kept with 16 bits: a probe does not need more.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.slug = f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')[-40:]}-{digest(name.encode())[:8]}"
        self._places: dict[str, int] = {}

    def path(self) -> Path | None:
        """Return the file, whose name ends with the width of a row; None before the first row."""
        return next(iter(sorted(self.folder.glob(f"{self.slug}-*.rows"))), None)

    def known(self) -> dict[str, int]:
        """Return the position of every key in the file."""
        records = self._records()
        for place in range(len(self._places), len(records)):
            self._places[records["key"][place].tobytes().hex()] = place
        return self._places

    def add(self, keys: Sequence[str], rows: Vectors) -> None:
        """Append rows."""
        width = rows.shape[1]
        path = self.path() or self.folder / f"{self.slug}-{width}.rows"
        records = np.empty(len(keys), dtype=record_type(width))
        records["key"] = [np.void(bytes.fromhex(key)) for key in keys]
        records["row"] = rows
        self.folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(file.tell() - file.tell() % records.itemsize)
            file.write(records.tobytes())

    def take(self, keys: Sequence[str]) -> Vectors:
        """Return the rows (n, d) of these keys as float32; all must be in the file."""
        places = self.known()
        return self._records()["row"][[places[key] for key in keys]].astype(np.float32)

    def _records(self) -> NDArray[Any]:
        path = self.path()
        if path is None:
            return np.empty(0, dtype=record_type(0))
        kind = record_type(int(path.stem.rpartition("-")[2]))
        count = path.stat().st_size // kind.itemsize
        return np.memmap(path, dtype=kind, mode="r", shape=(count,)) if count else np.empty(0, dtype=kind)


def record_type(width: int) -> np.dtype[Any]:
    """Return the type of a record: a key and its row."""
    return np.dtype([("key", f"V{KEY_BYTES}"), ("row", np.float16, (width,))])


def embed(
    index: Index,
    encoder: Encoder,
    file: VectorFile,
    keys: Sequence[str],
    progress: ProgressCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Compute the rows that are missing, in this order, and mark unreadable examples as such.

    Threads read the next examples while the network encodes. `stop` is called after each batch; return whether all
    rows were computed.
    """
    known = file.known()
    missing = [key for key in keys if key not in known]
    parts = [missing[start : start + encoder.ahead] for start in range(0, len(missing), encoder.ahead)]
    done = len(keys) - len(missing)
    with ThreadPoolExecutor(READERS) as threads:

        def read(part: Sequence[str]) -> list[Future[Any]]:
            return [threads.submit(_read_example, index, encoder, key) for key in part]

        waiting = read(parts[0]) if parts else []
        for place, part in enumerate(parts):
            found = dict(zip(part, [each.result() for each in waiting], strict=True))
            waiting = read(parts[place + 1]) if place + 1 < len(parts) else []
            for key, reason in found.items():
                if isinstance(reason, UnreadableError):
                    index.mark_unreadable(key, str(reason))
            ready = {key: one for key, one in found.items() if not isinstance(one, UnreadableError | None)}
            order = sorted(
                ready, key=lambda key: encoder.size(ready[key])
            )  # texts of one length need no padding
            for start in range(0, len(order), ENCODE_BATCH):
                batch = order[start : start + ENCODE_BATCH]
                file.add(batch, encoder.encode([ready[key] for key in batch]))
                if progress is not None:
                    left = max(0, len(order) - start - ENCODE_BATCH)
                    progress("encoding", done + len(part) - left, len(keys))
                if stop():
                    for each in waiting:
                        each.cancel()
                    return False
            done += len(part)
    return True


def _read_example(index: Index, encoder: Encoder, key: str) -> Any:
    """Return a prepared example, the reason why it cannot be read, or None where it is gone."""
    try:
        return encoder.read(index.content(key))
    except GoneError:
        return None
    except UnreadableError as reason:
        return reason
