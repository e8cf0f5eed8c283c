"""What a query takes, told before the work: forward passes and bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jostle.plumbing.memory import SMALLER, check_memory
from jostle.rows.mapped import RELEASE
from jostle.scoring.request import Request
from jostle.scoring.room import Room

SCORE = 8  # bytes of a score


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a query takes before it is made: how many examples go through the model, and how many bytes are held.

    The model itself and a micro-batch's activations come on top; `memory_bytes` is for the rest.
    """

    passes: int
    """Examples that go through the model, one jolt, mask or member of a committee each."""
    fewest: int | None = None
    """At best so many of them do, as the work will show; None: all."""
    rows: int = 0
    """Bytes of rows and scores that are kept."""
    width: int = 1
    """Numbers in a row, as the selector sees it."""
    centers: int = 0
    """Rows of what is labelled, from which the selector starts."""
    in_file: bool = False
    """Rows go to a file, and take hardly any memory."""
    spills: bool = False
    """That file is a temporary one."""
    buffer: int = 0
    """Bytes of inputs and clean outputs that are held at once."""
    working: int = 0
    """Bytes beside rows and buffer while rows are made."""
    selecting: int = 0
    """Bytes beside the rows while picks are made."""
    fixed: int = 0
    """Bytes of rows that lie in memory while picks are made, wherever the others go."""
    what: str = "rows and selection"
    """What takes the memory, for an error."""
    instead: str = SMALLER
    """What to do where it does not fit."""
    more: str = ""
    """Work that passes do not tell, such as a training."""
    notes: tuple[str, ...] = ()
    """What is done by itself, in words."""
    cheaper: tuple[str, ...] = ()
    """What would take less, in words."""

    @property
    def memory(self) -> int:
        """The most bytes that rows, buffers and selectors hold at once."""
        return self.held + max(self.buffer + self.working, self.selecting + self.fixed)

    @property
    def held(self) -> int:
        """Bytes of rows in memory: of those in a file the pages that are just read or written, and some around them."""
        return min(self.rows, 5 * RELEASE // 4) if self.in_file else self.rows

    def check(self, method: str, room: Room) -> None:
        """An error where that is more than is allowed, before the work.

        Args:
            method: What it is called in the error.
            room: What is allowed.
        """
        check_memory(method, self.memory, room.given, self.what, room.device, self.instead)
        if self.spills:
            room.check_disk(method, self.rows, self.what, self.instead)


def scores(request: Request, passes: int = 1) -> Costs:
    """One number for each example of the pool, after so many passes."""
    n = len(request.pool)
    return Costs(passes=passes * n, rows=SCORE * n, what=f"scores of {n:,} examples")


def features(request: Request, extra: int = 0, *, labeled: bool = True) -> Costs:
    """Features of the pool, and of the labelled set, from one pass, with `extra` bytes for each example."""
    size, d = sum(map(len, request.pools if labeled else (request.pool,))), request.feature_width
    held = size * (d * request.row_type.itemsize + extra)
    what = f"features of {size:,} examples, {d:,} numbers each, and selection among them"
    spills = request.room.spills(held)
    known = size - len(request.pool)
    return Costs(passes=size, rows=held, width=d, centers=known, in_file=spills, spills=spills, what=what)


def in_memory(costs: Costs) -> Costs:
    """The same where rows have to lie in memory."""
    return replace(costs, in_file=False, spills=False)
