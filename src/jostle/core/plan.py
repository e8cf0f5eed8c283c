"""A plan: what a call would take, told without doing the work."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from jostle.core.costs import Costs
from jostle.plumbing.memory import in_words
from jostle.scoring.rehearsal import Rehearsal
from jostle.scoring.request import Request
from jostle.selectors import Selector

if TYPE_CHECKING:
    from jostle.core.strategy import Strategy

SAMPLE = 1 << 21  # numbers in the rows among which a selector is tried
ROWS, PICKS = 2048, 64  # rows among which it is tried, at most, and how many it picks of them


@dataclass(frozen=True)
class Plan:
    """What a call would take: `print(plan)` shows it as a table."""

    strategy: str
    """What it is called."""
    examples: int
    """How many there are to choose from."""
    picks: int
    """How many are to be picked."""
    passes: int
    """Examples that would go through the model, one jolt, mask or member of a committee each: at most."""
    fewest: int
    """At least so many: `passes`, unless the work itself shows what can be left out."""
    seconds: dict[str, float]
    """How long it would take, by parts: `reading`, `scoring`, `selection`; from a few timed micro-batches."""
    memory: dict[str, int]
    """Bytes that it would take, by parts: `model` (its private copy), `activations`, `rows`, `buffer`, `selection`."""
    peak: int
    """The most bytes at once: selection begins when the buffer is gone."""
    file: int
    """Bytes of rows that would go to a file."""
    more: str
    """Work whose time is not part of `seconds`, such as a training."""
    notes: tuple[str, ...]
    """What would be done by itself: rows that go to a file, jolts that race."""
    cheaper: tuple[str, ...]
    """What would take less."""

    def __str__(self) -> str:
        lines = [f"{self.strategy}: {self.picks:,} of {self.examples:,} examples"]
        return "\n".join([*lines, *(f"  {name:<9} {words}" for name, words in self.rows())])

    def rows(self) -> Iterator[tuple[str, str]]:
        """The table, line by line: a name, and what there is to say."""
        through = f"{self.passes:,} examples through the model, {self.passes / self.examples:.3g} of each"
        yield "passes", through if self.fewest == self.passes else f"{self.fewest:,} to {through}"
        parts = ", ".join(f"{part} {in_seconds(value)}" for part, value in self.seconds.items())
        yield "time", f"about {in_seconds(sum(self.seconds.values()))}: {parts}"
        if self.more:
            yield "", f"and {self.more}, which is not part of that"
        parts = ", ".join(f"{part} {in_words(size)}" for part, size in self.memory.items())
        yield "memory", f"{in_words(self.peak)} at most: {parts}"
        if self.file:
            yield "on disk", f"{in_words(self.file)} of rows"
        for note in self.notes:
            yield "note", note
        for way in self.cheaper:
            yield "cheaper", way


def planned(strategy: Strategy, request: Request, n: int) -> Plan:
    """What n picks of a request would take."""
    costs = strategy.costs(request, n)
    costs.check(strategy.spoken, request.room)
    seconds, activations, model = {"selection": strategy.selecting_seconds(request, costs, n)}, 0, 0
    if costs.passes:
        rehearsal = Rehearsal.of(request)
        scoring = strategy.scoring_seconds(rehearsal, costs)
        seconds = {"reading": len(request.pool) * rehearsal.reading, "scoring": scoring, **seconds}
        tensors = [*request.network.module.parameters(), *request.network.module.buffers()]
        activations, model = rehearsal.activations, sum(tensor.nbytes for tensor in tensors)
    memory = {"model": model, "activations": activations, "rows": costs.held}
    memory |= {"buffer": costs.buffer + costs.working, "selection": costs.selecting + costs.fixed}
    if costs.spills:
        request.room.note_spill(costs.rows, "rows")
    peak = model + costs.held + max(activations + memory["buffer"], memory["selection"])
    return Plan(
        strategy.spoken,
        len(request.pool),
        n,
        costs.passes,
        costs.passes if costs.fewest is None else costs.fewest,
        seconds,
        memory,
        peak,
        costs.rows if costs.in_file else 0,
        costs.more,
        (*request.notes, *costs.notes),
        costs.cheaper,
    )


def rehearsed(picker: Selector, costs: Costs, size: int, n: int) -> float:
    """Seconds that a selector would take, from a few random rows: more than it takes where it can prune."""
    few = max(min(size, PICKS), min(size, ROWS, SAMPLE // costs.width))
    picks = max(1, min(n, PICKS, few // 4))
    rows = torch.randn(few, costs.width, generator=torch.Generator().manual_seed(0))
    try:
        taken = min(seconds_of(picker, rows, picks) for _ in range(2))
    except (TypeError, ValueError, IndexError):  # rows of a kind of its own
        return 0.0
    return taken * max(1.0, size / few * math.sqrt(max(1.0, n / picks)))


def seconds_of(picker: Selector, rows: torch.Tensor, n: int) -> float:
    """How long some picks take."""
    start = time.perf_counter()
    picker.pick(rows, n, seed=0)
    return time.perf_counter() - start


def in_seconds(value: float) -> str:
    """A time as people say it."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
