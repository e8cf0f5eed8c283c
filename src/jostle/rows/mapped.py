"""Rows in a file, for pools larger than memory: one of the user's in numpy's format, or one that goes with the rows."""

import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from jostle.rows.geometry import MAPS
from jostle.utils.files import check_target

MARK = b"rows of jostle".ljust(64)
IN_MEMORY = {"tmpfs", "ramfs"}  # kinds of file systems whose files are memory after all


def check_rows_file(path: Path) -> None:
    """Refuse to put rows where anything lies but rows of ours: a pool's own file, say."""
    check_target(path, lambda _: _is_marked(path), advice="name another file in cache_path=, or remove it")


def mapped_rows(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros in a new memory-mapped file, which numpy.load reads; one of ours makes way for it.

    Whoever still holds the rows of the old file keeps them.
    """
    check_rows_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    with path.open("xb+") as file:
        header = {"descr": kind.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()  # a multiple of 64
        end = start + math.prod(shape) * kind.itemsize
        _reserve(file, end)
        file.seek(end)
        file.write(MARK)
        file.flush()
        return _view(file, start, shape, dtype)


def rows_again(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
    """The rows of a file that `mapped_rows` made, to be written on; None where they are not of this shape and type."""
    with suppress(OSError, ValueError), path.open("rb+") as file:
        if not _is_marked(path) or np.lib.format.read_magic(file) != (1, 0):
            return None
        found, in_columns, kind = np.lib.format.read_array_header_1_0(file)
        if (found, in_columns, kind) == (shape, False, torch.empty(0, dtype=dtype).numpy().dtype):
            return _view(file, file.tell(), shape, dtype)
    return None


def spilled_rows(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros in a temporary file without a name: it is gone with the rows, or with the process, however that ends."""
    with tempfile.TemporaryFile(dir=spill_folder()) as file:
        size = max(1, math.prod(shape) * dtype.itemsize)  # nothing cannot be mapped
        if hasattr(os, "posix_fallocate"):
            _reserve(file, size)
        else:
            file.truncate(size)
        return _view(file, 0, shape, dtype)


def spill_folder() -> Path:
    """Return the folder for temporary rows: the system's (TMPDIR), unless that is memory itself."""
    folder, other = Path(tempfile.gettempdir()), Path("/var/tmp")  # nosec B108  # files without a name
    return other if _kind_of(folder) in IN_MEMORY and os.access(other, os.W_OK) else folder


def spill_room() -> int:
    """Bytes that are free where temporary rows go."""
    return shutil.disk_usage(spill_folder()).free


def _view(file: BinaryIO, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers of a file from a byte on, as a tensor that writes into it."""
    view = mmap.mmap(file.fileno(), 0)
    whole = torch.frombuffer(view, dtype=torch.uint8)  # holds the view as long as it lives
    MAPS[whole.untyped_storage().data_ptr()] = view
    return whole[start : start + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _reserve(file: BinaryIO, size: int) -> None:
    """Room on the disk, or an error now: a full disk would end the process when a mapped page is written."""
    if hasattr(os, "posix_fallocate"):
        file.flush()
        os.posix_fallocate(file.fileno(), 0, size)


def _is_marked(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(MARK)))
        return file.read() == MARK


def _kind_of(folder: Path) -> str:
    """The kind of file system that holds a folder, where the system tells; the longest mount point wins."""
    found = ("", "")
    with suppress(OSError):
        for point, kind in _mounts():
            if folder.resolve().is_relative_to(point) and len(point) >= len(found[0]):
                found = point, kind
    return found[1]


def _mounts() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, point, kind, *_ = line.split()
        yield point, kind
