"""Rows, dense or outer, in memory or in a file: the one place that asks which.

Rows in a file are for pools larger than memory: a file of the user's in numpy's format, or one that goes with the rows.
"""

import math
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, overload
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from jostle.utils.files import check_target


@dataclass(frozen=True, eq=False)
class Outer:
    """Row i is the outer product of left[i] and right[i]; c + d numbers stand for c * d.

    k-center and k-means++ take it wherever they take a tensor of rows.
    """

    left: Tensor
    """(n, c)."""
    right: Tensor
    """(n, d)."""

    def __post_init__(self) -> None:
        shapes = f"left {tuple(self.left.shape)} and right {tuple(self.right.shape)}"
        if self.left.ndim != 2 or self.right.ndim != 2 or len(self.left) != len(self.right):
            raise ValueError(f"Outer needs two matrices of equal length, got {shapes}")
        if not self.left.is_floating_point():
            raise TypeError(f"Outer needs floating factors, got {self.left.dtype}")
        if self.left.dtype != self.right.dtype or self.left.device != self.right.device:
            raise ValueError(
                f"Outer needs factors of one dtype on one device, got {self.left.dtype} on "
                f"{self.left.device} and {self.right.dtype} on {self.right.device}"
            )

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, positions: Tensor | slice) -> "Outer":
        return Outer(self.left[positions], self.right[positions])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of both factors."""
        return self.left.dtype

    @property
    def device(self) -> torch.device:
        """The device of both factors."""
        return self.left.device

    def to(self, target: torch.dtype | torch.device) -> "Outer":
        """Both factors in another dtype or on another device, the `target`."""
        return Outer(self.left.to(target), self.right.to(target))

    def detach(self) -> "Outer":
        """Return rows without their autograd history."""
        return Outer(self.left.detach(), self.right.detach())

    def dense(self) -> Tensor:
        """The rows themselves: n * c * d numbers, for small cases only."""
        return (self.left[:, :, None] * self.right[:, None, :]).flatten(1)  # (n, c * d)


Rows = Tensor | Outer
Reduction = Literal["mean", "sum", "max"]  # how numbers of several sites become one

RELEASE = 32 * 2**20  # bytes of mapped rows that are read or written before their pages are given back
MAPS: "WeakValueDictionary[int, mmap.mmap]" = WeakValueDictionary()  # first byte -> the file mapped there


def release(*held: Tensor) -> None:
    """Give the pages of rows in a file back to the system; rows in memory stay as they are.

    A mapped page counts as memory of the process until then. Nothing is lost: it is read again when it is looked at.
    """
    for rows in held:
        view = MAPS.get(rows.untyped_storage().data_ptr()) if len(MAPS) else None
        if view is not None and hasattr(view, "madvise"):
            view.madvise(mmap.MADV_DONTNEED)


def is_mapped(rows: Tensor) -> bool:
    """Whether rows lie in a file."""
    return rows.device.type == "cpu" and rows.untyped_storage().data_ptr() in MAPS


BLOCK_NUMBERS = 1 << 20  # numbers in a block of a long pass: what a cache holds
CROWD_NUMBERS = 1 << 24  # numbers in rows that are worked on together: what memory spares


def blocks(count: int, *, per_row: int, of: Rows | None = None) -> Iterator[slice]:
    """Slices that cover range(count): as many rows each as give BLOCK_NUMBERS, at `per_row` numbers for each row.

    Where `of` are rows in a file, the memory of every few blocks goes back to the system.
    """
    size = max(1, BLOCK_NUMBERS // per_row)
    seen = 0  # bytes since pages were given back
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
        if isinstance(of, Tensor):
            seen += of[start : start + size].nbytes
            if seen >= RELEASE or start + size >= count:
                release(of)
                seen = 0


def in_blocks(rows: Tensor, of: Callable[[Tensor], Tensor], per_row: int, dtype: torch.dtype) -> Tensor:
    """One number for each of the rows, (n,), a block at a time; what is kept of each lies in one place from the start.

    Parts that were kept between large blocks would break up the memory, and several times as much would be held.

    Args:
        rows: (n, d), perhaps in a file.
        of: From a block (k, d) to its numbers (k,).
        per_row: Numbers that a row takes meanwhile.
        dtype: The type of the numbers.
    """
    found = torch.empty(len(rows), dtype=dtype, device=rows.device)
    for part in blocks(len(rows), per_row=per_row, of=rows):
        found[part] = of(rows[part])
    return found


def width(rows: Rows) -> int:
    """Numbers that hold a row; the rounding of its products grows with it."""
    return rows.left.shape[1] + rows.right.shape[1] if isinstance(rows, Outer) else rows.shape[1]


def rows_at_once(size: int, rows: Rows) -> int:
    """How many rows to work on together: `size`, fewer where they are very wide."""
    return min(size, max(16, CROWD_NUMBERS // width(rows)))


def rows_at(rows: Rows, positions: Tensor) -> Rows:
    """Return rows[positions], faster than indexing."""
    if isinstance(rows, Outer):
        return Outer(rows.left.index_select(0, positions), rows.right.index_select(0, positions))
    found = rows.index_select(0, positions)
    release(rows)
    return found


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one kind, one part after the other."""
    if isinstance(parts[0], Outer):
        factors = [(part.left, part.right) for part in parts if isinstance(part, Outer)]
        left, right = zip(*factors, strict=True)
        return Outer(torch.cat(left), torch.cat(right))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])


def origin(rows: Rows) -> Rows:
    """One zero row of the same kind."""
    if isinstance(rows, Outer):
        return Outer(torch.zeros_like(rows.left[:1]), torch.zeros_like(rows.right[:1]))
    return torch.zeros_like(rows[:1])


@overload
def unit_length(rows: Tensor) -> Tensor: ...
@overload
def unit_length(rows: Outer) -> Outer: ...
def unit_length(rows: Rows) -> Rows:
    """Rows divided by their length; zero rows stay zero."""
    return Outer(_unit(rows.left), _unit(rows.right)) if isinstance(rows, Outer) else _unit(rows)


def _unit(rows: Tensor) -> Tensor:
    largest = rows.abs().amax(1, keepdim=True)
    scaled = rows / torch.where(largest > 0, largest, 1)  # so that squares neither overflow nor vanish
    norm, elsewhere = partial(torch.linalg.vector_norm, dim=1), lambda rows: halved_sums(rows.square()).sqrt()
    lengths = by_row(scaled, norm, elsewhere)[:, None]
    return scaled / torch.where(lengths > 0, lengths, 1)


def squared_lengths(rows: Rows) -> Tensor:
    """Squared Euclidean length of each row, (n,)."""
    if isinstance(rows, Outer):
        return squared_lengths(rows.left) * squared_lengths(rows.right)
    return rows.square().sum(1)  # not vector_norm squared: whole numbers stay whole, and ties ties


def exact_sums(numbers: Tensor) -> Tensor:
    """Sums along rows, (n,): a row's has the same bits whatever rows lie beside it, and however many threads add."""
    return by_row(numbers, lambda rows: rows.sum(1), halved_sums)


def by_row(rows: Tensor, reduce: Callable[[Tensor], Tensor], elsewhere: Callable[[Tensor], Tensor]) -> Tensor:
    """A reduction of each contiguous row, (n,), that does not depend on the other rows.

    A CPU reduces every row in the same way, unless it is the only one: then threads may share it. Other devices choose
    by the shape, so that there something else must do.
    """
    if rows.device.type != "cpu":
        return elsewhere(rows)
    rows = rows.contiguous()
    return reduce(rows) if len(rows) != 1 else reduce(torch.cat([rows, rows]))[:1]


def halved_sums(numbers: Tensor) -> Tensor:
    """Sums along rows, (n,), half added to half, number by number: no device can do that in another order."""
    while (size := numbers.shape[1]) > 1:
        half = (size + 1) // 2
        rest = numbers[:, half:]
        numbers = torch.cat([numbers[:, : size - half] + rest, numbers[:, size - half : half]], 1)
    return numbers[:, 0]


def exact_lengths(rows: Rows) -> Tensor:
    """Squared lengths by `exact_sums`, (n,), for decisions; rows are float64."""
    if isinstance(rows, Outer):
        return exact_lengths(rows.left) * exact_lengths(rows.right)
    return exact_sums(rows.square())


def products(rows: Rows, others: Rows) -> Tensor:
    """Inner products of all rows with all others, (n, m)."""
    match rows, others:
        case Outer(), Outer():
            return (rows.left @ others.left.T).mul_(rows.right @ others.right.T)  # (a.b)(h.k)
        case Tensor(), Tensor():
            return rows @ others.T
    raise TypeError("rows and others must be of one kind")


def squared_differences(rows: Rows, others: Rows) -> Tensor:
    """Squared distance of each row to its partner by `exact_sums`, (n,): what near ties are decided by."""
    match rows, others:
        case Outer(), Outer():  # a x h - b x k = (a - b) x h + b x (h - k)
            rows, others = _balanced(rows), _balanced(others)
            left, right = rows.left - others.left, rows.right - others.right
            crossed = 2 * exact_sums(left * others.left) * exact_sums(rows.right * right)
            straight = exact_lengths(Outer(left, rows.right)) + exact_lengths(Outer(others.left, right))
            return (straight + crossed).clamp_(min=0)
        case Tensor(), Tensor():
            return exact_lengths(rows - others)
    raise TypeError("rows and others must be of one kind")


def _balanced(rows: Outer) -> Outer:
    """Return rows with factors of about equal length: shifted by powers of two, which round nothing."""
    left, right = exact_lengths(rows.left), exact_lengths(rows.right)
    exponents = ((right / left).log2() / 4).round()
    shift = torch.exp2(torch.where((left > 0) & (right > 0), exponents, 0))[:, None]
    return Outer(rows.left * shift, rows.right / shift)


def rounding(rows: Rows) -> float:
    """Bound of the error of a squared distance made from products, relative to the sum of both squared lengths.

    Holds for any order of summing, and for rows scaled to unit length just before; what `squared_differences` rounds
    is within it too.
    """
    exacting = (
        4 if isinstance(rows, Outer) and rows.dtype == torch.float64 else 1
    )  # their differences are larger
    return exacting * (4 * width(rows) + 32) * torch.finfo(rows.dtype).eps / 2


def distance_bounds(rows: Rows, centers: Rows) -> Tensor:
    """Squared distance of each row to its nearest center, rounded so that it is never too small, (n,) float64."""
    grow = 1 + rounding(rows)
    tiny = width(rows) * torch.finfo(rows.dtype).tiny  # what squares lose that vanish
    nearest = products(rows, centers).mul_(-2).add_(squared_lengths(centers) * grow).amin(1)
    bounds = nearest.add_(squared_lengths(rows) * grow).add_(tiny).to(torch.float64)
    if rows.dtype != torch.float64 and not bounds.isfinite().all():  # squares overflow
        return distance_bounds(rows.to(torch.float64), centers.to(torch.float64))
    return bounds


def squared_distances(rows: Rows, centers: Rows) -> tuple[Tensor, Tensor]:
    """All squared distances from products (n, m), and how far those of each row may be from the exact ones (n,)."""
    row_lengths, center_lengths = squared_lengths(rows), squared_lengths(centers)
    distances = products(rows, centers).mul_(-2).add_(center_lengths).add_(row_lengths[:, None])
    tiny = width(rows) * torch.finfo(rows.dtype).tiny
    return distances, (row_lengths + center_lengths.max()) * rounding(rows) + tiny


def nearest_distances(rows: Rows, centers: Rows) -> Tensor:
    """Squared distance of each row to its nearest center, (n,), the same bits whatever rows and centers come along.

    Products tell which centers may be the nearest; these are measured by `squared_differences`.
    """
    distances, slack = squared_distances(rows, centers)
    reach = distances.amin(1) + 2 * slack
    row, center = (distances <= reach[:, None]).nonzero().T  # (pairs,), (pairs,)
    nearest = torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
    for part in blocks(len(row), per_row=width(rows)):
        apart = squared_differences(rows[row[part]], centers[center[part]])
        nearest.scatter_reduce_(0, row[part], apart, "amin")
    return nearest


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
        _reserve(file, size)
        return _view(file, 0, shape, dtype)


def spill_folder() -> Path:
    """Return the folder for temporary rows: the system's (TMPDIR), unless that is memory itself."""
    folder, other = Path(tempfile.gettempdir()), Path("/var/tmp")  # nosec B108  # files without a name
    return other if _kind_of(folder) in IN_MEMORY and os.access(other, os.W_OK) else folder


def _view(file: BinaryIO, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers of a file from a byte on, as a tensor that writes into it."""
    view = mmap.mmap(file.fileno(), 0)
    whole = torch.frombuffer(view, dtype=torch.uint8)  # holds the view as long as it lives
    MAPS[whole.untyped_storage().data_ptr()] = view
    return whole[start : start + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _reserve(file: BinaryIO, size: int) -> None:
    """Room on the disk, or an error now: a full disk would end the process when a mapped page is written."""
    file.flush()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def _is_marked(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(MARK)))
        return file.read() == MARK


def _kind_of(folder: Path) -> str:
    """The kind of file system that holds a folder, where the system tells; the longest mount point wins."""
    found = ("", "")
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
            _, point, kind, *_ = line.split()
            if folder.resolve().is_relative_to(point) and len(point) >= len(found[0]):
                found = point, kind
    return found[1]
