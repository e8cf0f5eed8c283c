"""Rows in a file of their own, for pools larger than memory: numpy's format, with a mark of ours at the end."""

import math
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from jostle.plumbing.files import check_target

MARK = b"rows of jostle".ljust(64)


def check_rows_file(path: Path) -> None:
    """Refuse to put rows where anything lies but rows of ours: a pool's own file, say."""
    check_target(path, lambda _: _is_marked(path), advice="name another file in rows_file=, or remove it")


def mapped_rows(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros in a new memory-mapped file, which numpy.load reads; one of ours makes way for it.

    Whoever still holds the rows of the old file keeps them.
    """
    check_rows_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    with path.open("xb") as file:
        header = {"descr": kind.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()  # a multiple of 64
        end = start + math.prod(shape) * kind.itemsize
        _reserve(file, end)
        file.seek(end)
        file.write(MARK)
    whole = torch.from_file(str(path), shared=True, size=end, dtype=torch.uint8)
    return whole[start:].view(dtype).view(shape)


def _reserve(file: BinaryIO, size: int) -> None:
    """Room on the disk, or an error now: a full disk would end the process when a mapped page is written."""
    if hasattr(os, "posix_fallocate"):
        file.flush()
        os.posix_fallocate(file.fileno(), 0, size)


def _is_marked(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(MARK)))
        return file.read() == MARK
