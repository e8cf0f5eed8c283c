"""A plan: what a call would take, told without doing the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from jostle.plumbing.memory import in_words
from jostle.plumbing.progress import in_seconds
from jostle.rows.geometry import Rows, width
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


def rehearsed(picker: Selector, rows: Rows, size: int, n: int, known: int = 0) -> float:
    """Seconds that a selector would take, from a few rows and a quarter of them; more than it takes where it can prune.

    Args:
        picker: The selector.
        rows: A few, of the kind that it will see.
        size: How many it will see.
        n: How many it will pick.
        known: How many rows are labelled.
    """
    picks, wide = max(1, min(n, PICKS, len(rows) // 4)), width(rows)
    fewer = rows[: max(picks, len(rows) // 4)]
    some = min(known, picks) if picker.uses_centers else 0
    centers = rows[len(rows) - some :] if some else None
    try:
        least, taken = (
            seconds_of(partial(picker.pick, part, picks, centers=centers, seed=0)) for part in (fewer, rows)
        )
    except (TypeError, ValueError, IndexError):  # rows of a kind of its own
        return 0.0
    small, large = (picker.effort(len(part), wide, picks, some) for part in (fewer, rows))
    slope = max(0.0, taken - least) / (large - small) if large > small else 0.0
    once = (taken - slope * large) * n / picks  # what each pick takes however many rows there are
    return max(taken, once + slope * picker.effort(size, wide, n, known))


def trial(wide: int, size: int, most: int = ROWS) -> torch.Tensor:
    """Random rows among which selection is tried: no more than `size`, nor than `most`, each so many numbers `wide`."""
    few = max(min(size, PICKS), min(size, most, SAMPLE // wide))
    rows = torch.randn(few, wide, generator=torch.Generator().manual_seed(0))
    return rows / torch.arange(1, wide + 1) ** 0.25  # rows of networks vary more along some directions


def seconds_of(work: Callable[[], Any]) -> float:
    """How long some work takes, the better of two times."""
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)
