"""The memory of a call: what a strategy estimates, what it may use, and where its rows go.

Rows that would take more than half of what is allowed (`memory_bytes`, or half of what is free) go to a temporary
file; the other half is for buffers and selectors.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from jostle.inputs import arrays, count
from jostle.rows.geometry import RELEASE, blocks, release, spill_folder, spilled_rows

if TYPE_CHECKING:
    from jostle.inference.context import QueryContext

UNITS = ("B", "kB", "MB", "GB", "TB")
UNKNOWN = 8 * 2**30  # bytes, where a system does not tell
SMALLER = "pass a smaller random part of the pool"


def in_words(size: float) -> str:
    """Bytes as people say them: 38.6 GB."""
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {UNITS[power]}"


def free_bytes(device: torch.device) -> int:
    """Bytes that are free where a model computes; a guess where nothing tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = []
    for read in (_available, _left_in_group, _pages, _windows):
        with suppress(
            OSError, ValueError, AttributeError, KeyError
        ):  # a reading that this system does not have
            found.append(read())
    return min(filter(None, found), default=UNKNOWN)


def _available() -> int:
    """Linux: what can be had without swapping."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _left_in_group() -> int:
    """Linux: what a container is allowed beyond what it holds."""
    group = Path("/sys/fs/cgroup")
    most, now = (int((group / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    return most - now


def _pages() -> int:
    """Other Unix systems."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _windows() -> int:
    """Windows: MEMORYSTATUSEX has the free physical bytes at its second 64-bit number."""
    status = (ctypes.c_uint64 * 8)()
    status[0] = ctypes.sizeof(status)  # its first half is the length of the structure
    ctypes.windll.kernel32.GlobalMemoryStatusEx(status)  # type: ignore[attr-defined]
    return int(status[2])


SCORE = 8  # bytes of a score


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Forward passes and bytes of a query; the model and the activations of a micro-batch come on top.

    Refusal, spilling to a file and `plan` follow from it.
    """

    passes: int
    """Examples that go through the model, once for each perturbation, mask or member of a committee."""
    rows: int = 0
    """Bytes of rows and scores."""
    width: int = 1
    """Numbers in a row, as the selector sees it."""
    may_spill: bool = False
    """Whether rows may go to a temporary file."""
    cached: bool = False
    """Whether rows go to a file of the user's."""
    buffer: int = 0
    """Bytes of inputs and clean outputs that are held at once."""
    working: int = 0
    """Bytes beside rows and buffer while rows are computed."""
    selecting: int = 0
    """Bytes beside the rows during selection."""
    resident: int = 0
    """Bytes of rows that stay in memory during selection even if the others spill."""
    what: str = "rows and selection"
    """The use of the memory, for an error."""
    remedy: str = SMALLER
    """Advice for a query that does not fit."""
    extra_work: str = ""
    """Work that is not counted in passes, such as a training."""
    suggestions: tuple[str, ...] = ()
    """Cheaper settings, in words."""


def score_estimate(context: QueryContext, passes: int = 1) -> Estimate:
    """Estimate one number for each example of the pool.

    Args:
        context: The context of the query.
        passes: How often each example goes through the model.
    """
    n = len(context.pool)
    return Estimate(passes=passes * n, rows=SCORE * n, what=f"scores of {n:,} examples")


def feature_estimate(context: QueryContext, extra: int = 0, *, labeled: bool = True) -> Estimate:
    """Estimate features of the pool, and of the labeled set, from one pass.

    Args:
        context: The context of the query.
        extra: Bytes for each example beside its features.
        labeled: Whether the labeled set has rows too.
    """
    size, d = sum(map(len, context.pools if labeled else (context.pool,))), context.feature_width
    held = size * (d * context.row_type.itemsize + extra)
    what = f"features of {size:,} examples, {d:,} numbers each, and selection among them"
    return Estimate(passes=size, rows=held, width=d, may_spill=True, what=what)


FEW, NARROW = 10, 512  # perturbations, and numbers in a row, that are often enough
CACHED_CHUNKS = 20  # of a scoring with a cache, at least: an interrupt loses one of them


def largest_chunk(settings: Any, size: int) -> int:
    """The most examples, of so many in all, that are held together under all perturbations, whatever a buffer holds."""
    return size if settings.cache_path is None else -(-size // CACHED_CHUNKS)


def perturbed_estimate(settings: Any, context: QueryContext, size: int, width: int) -> Estimate:
    """Estimate rows under K perturbations.

    Args:
        settings: A strategy with num_perturbations, projection_dim, buffer_bytes and cache_path.
        context: The context of the query.
        size: The number of examples.
        width: Numbers in an output, d.
    """
    number, wide, cached = (
        settings.num_perturbations,
        settings.projection_dim,
        settings.cache_path is not None,
    )
    item, full = context.row_type.itemsize, number * width
    row = wide or full
    example = context.runner.example
    each = sum(array.nbytes for array in arrays(example)) // count(example) + width * item
    chunk = min(largest_chunk(settings, size) * each, context.budget.buffer(settings.buffer_bytes))
    remedies = (
        f"keep rows narrow with projection_dim={NARROW}" if row > NARROW else "",
        "" if cached else "keep rows on disk with cache_path=",
        "pass a part of the pool",
    )
    suggestions = (
        f"num_perturbations={FEW}: {size * (FEW + 1):,} passes, with rougher rows" if number > FEW else "",
        f"projection_dim={NARROW}: {in_words(size * NARROW * item)} of rows, with distances that are right on average"
        if wide is None and full > NARROW
        else "",
    )
    return Estimate(
        passes=size * (number + 1),
        rows=size * row * item,
        width=row,
        may_spill=True,
        cached=cached,
        buffer=max(min(size, context.micro_batch) * each, chunk),
        working=(wide or 0) * width * item,
        what=f"deviations of {size:,} examples under {number} perturbations, {width:,} numbers each, and selection",
        remedy=", or ".join(filter(None, remedies)),
        suggestions=tuple(filter(None, suggestions)),
    )


MAPPED_BYTES = 5 * RELEASE // 4  # of rows in a file, the pages that are in memory at a time
BUFFER = 4  # inputs that are held at once take at most this part of what is allowed


@dataclass(frozen=True)
class MemoryBudget:
    """The memory that a call may use."""

    given: int | None  # memory_bytes, as the strategy says it
    free: int | None  # bytes that were free where nothing was said
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, memory_bytes: int | None, device: torch.device, notes: list[str]) -> MemoryBudget:
        """The budget that a strategy sets, or half of what is free on the `device`."""
        free = None if memory_bytes is not None else free_bytes(device)
        return cls(memory_bytes, free, notes)

    @property
    def allowed(self) -> int:
        """Bytes for rows, buffers and selectors together."""
        return self.given if self.given is not None else (self.free or 0) // 2

    def spills(self, size: int) -> bool:
        """Whether rows of so many bytes go to a file."""
        return size > self.allowed // 2

    def buffer(self, wanted: int) -> int:
        """Bytes of inputs to hold at once: as many as wanted, and no more than a part of what is allowed."""
        return min(wanted, self.allowed // BUFFER)

    def rows(self, shapes: Sequence[tuple[tuple[int, ...], Tensor]], what: str) -> tuple[Tensor, ...]:
        """Allocate rows of these shapes, each like a tensor in type and layout, in memory or a temporary file."""
        size = sum(math.prod(shape) * like.element_size() for shape, like in shapes)
        if not self.spills(size):
            return tuple(_empty(shape, like) for shape, like in shapes)
        self.note_spill(size, what)
        return tuple(spilled_rows(shape, like.dtype) for shape, like in shapes)

    def note_spill(self, size: int, what: str) -> None:
        """Tell that rows go to a file."""
        self.notes.append(
            f"{what} take {in_words(size)}, more than {self.share} ({in_words(self.allowed // 2)}): they go to a "
            f"temporary file in {spill_folder()}, which goes with them"
        )

    @property
    def share(self) -> str:
        """Describe the memory that rows may take."""
        whole = "what may be used of the free memory" if self.given is None else "memory_bytes"
        return f"half of {whole}"


def check_shapes(shapes: Sequence[tuple[int, ...]]) -> None:
    """Outputs have one shape in all batches, or an error that shows the `shapes`."""
    if len(set(shapes)) > 1:
        raise ValueError(
            f"outputs differ in shape between batches: {sorted(set(shapes))[:4]}; pad inputs to one length with "
            "collate_fn=, say with mask= which tokens count, or reduce outputs to one shape with outputs="
        )


def non_finite(rows: Tensor) -> Tensor:
    """Which rows hold NaN or infinity, (n,) on the CPU; looked at in parts, since rows may lie in a large file."""
    bad = torch.empty(len(rows), dtype=torch.bool, device="cpu")
    for part in blocks(len(rows), per_row=max(1, rows[:1].numel()), of=rows):
        bad[part] = ~torch.isfinite(rows[part].flatten(1) if rows.ndim > 1 else rows[part, None]).all(1)
    return bad


class RowBuffer:
    """Rows of all micro-batches, written where they stay as they come: they are never there twice."""

    def __init__(self, size: int, budget: MemoryBudget, what: str) -> None:
        self.size, self.budget, self.what = size, budget, what
        self.columns: tuple[Tensor, ...] = ()  # (n, ...) each
        self.done = self.kept = 0  # rows, and bytes since pages were given back

    def add(self, parts: tuple[Tensor, ...]) -> None:
        """The next rows of each column."""
        if not self.columns:
            shapes = [((self.size, *part.shape[1:]), part) for part in parts]
            self.columns = self.budget.rows(shapes, self.what)
        for column, part in zip(self.columns, parts, strict=True):
            check_shapes([tuple(column.shape[1:]), tuple(part.shape[1:])])
            column[self.done : self.done + len(part)] = part
        self.done += len(parts[0])
        self.kept += sum(part.nbytes for part in parts)
        if self.kept > RELEASE:
            release(*self.columns)
            self.kept = 0


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Allocate rows in memory, laid out as a batch is: sums over images depend on it."""
    last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last and not like.is_contiguous() else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


@dataclass(frozen=True)
class Placement:
    """Placement of the rows of an estimate under a memory budget, and the memory that follows."""

    estimate: Estimate
    budget: MemoryBudget

    @property
    def spills(self) -> bool:
        """Whether rows go to a temporary file."""
        may = self.estimate.may_spill and not self.estimate.cached
        return may and self.budget.spills(self.estimate.rows)

    @property
    def held(self) -> int:
        """Bytes of rows in memory."""
        in_file = self.estimate.cached or self.spills
        return min(self.estimate.rows, MAPPED_BYTES) if in_file else self.estimate.rows

    @property
    def computing(self) -> int:
        """Bytes beside the rows while they are computed."""
        return self.estimate.buffer + self.estimate.working

    @property
    def selecting(self) -> int:
        """Bytes beside the rows during selection."""
        return self.estimate.selecting + self.estimate.resident

    def check(self, name: str) -> None:
        """Raise an error in the `name` of a strategy where memory or disk do not suffice."""
        estimate, budget = self.estimate, self.budget
        needed = self.held + max(self.computing, self.selecting)
        instead = estimate.remedy
        wrong = ""
        if needed > budget.allowed and budget.given is not None:
            wrong = f"memory_bytes={budget.given:,}: raise memory_bytes, or {instead}"
        elif needed > budget.allowed:
            free = f"half of the {budget.free:,} that are free"
            wrong = f"{free}: {instead}, or set memory_bytes={needed} to try all the same"
        elif self.spills and estimate.rows > (room := shutil.disk_usage(spill_folder()).free):
            needed, where = estimate.rows, f"the {room:,} that are free in {spill_folder()}"
            wrong = f"{budget.share} and than {where}: {instead}, or set TMPDIR to a folder with more room"
        if wrong:
            raise ValueError(f"{name} would need {needed:,} bytes for {estimate.what}, more than {wrong}")
