"""Where rows go: memory as far as a call may use it, a mapped file beyond, by one rule that is stated and shown.

The rule: rows that would take more than half of what is allowed (`memory_bytes`, or half of what is free) go to a
temporary file; the other half is for buffers and selectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from jostle.rows.mapped import RELEASE, release, spill_folder, spill_room, spilled_rows
from jostle.rows.vectors import check_shapes
from jostle.utils import memory
from jostle.utils.memory import in_words

BUFFER = 4  # inputs that are held at once take at most this part of what is allowed


@dataclass(frozen=True)
class MemoryBudget:
    """The memory that a call may use."""

    given: int | None  # memory_bytes, as the strategy says it
    free: int | None  # bytes that were free where nothing was said
    device: torch.device
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, memory_bytes: int | None, device: torch.device, notes: list[str]) -> MemoryBudget:
        """The budget that a strategy sets, or half of what is free on the `device`."""
        free = None if memory_bytes is not None else memory.free_bytes(device)
        return cls(memory_bytes, free, device, notes)

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
        """MemoryBudget for rows of these shapes, each like a tensor in type and layout."""
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

    def check_disk(self, method: str, size: int, what: str, instead: str) -> None:
        """An error where rows that go to a temporary file find no room there, before the work."""
        if size > (free := spill_room()):
            raise ValueError(
                f"{method} would need {size:,} bytes for {what}, more than {self.share} and than the {free:,} that are "
                f"free in {spill_folder()}: {instead}, or set TMPDIR to a folder with more room"
            )

    @property
    def share(self) -> str:
        """What rows in memory may take, in words."""
        return (
            "half of memory_bytes"
            if self.given is not None
            else "half of what may be used of the free memory"
        )


class RowBuffer:
    """Rows of all micro-batches, written where they stay as they come: they are never there twice."""

    def __init__(self, size: int, room: MemoryBudget, what: str) -> None:
        self.size, self.room, self.what = size, room, what
        self.columns: tuple[Tensor, ...] = ()  # (n, ...) each
        self.done = self.kept = 0  # rows, and bytes since pages were given back

    def add(self, parts: tuple[Tensor, ...]) -> None:
        """The next rows of each column."""
        if not self.columns:
            shapes = [((self.size, *part.shape[1:]), part) for part in parts]
            self.columns = self.room.rows(shapes, self.what)
        for column, part in zip(self.columns, parts, strict=True):
            check_shapes([tuple(column.shape[1:]), tuple(part.shape[1:])])
            column[self.done : self.done + len(part)] = part
        self.done += len(parts[0])
        self.kept += sum(part.nbytes for part in parts)
        if self.kept > RELEASE:
            release(*self.columns)
            self.kept = 0


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """MemoryBudget in memory, laid out as a batch is: sums over images depend on it."""
    last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last and not like.is_contiguous() else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
