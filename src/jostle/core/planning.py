"""Plans of queries: passes, time and memory, from an `Estimate` and a few timed micro-batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jostle.inference.context import QueryContext
from jostle.inference.memory import Placement, in_words
from jostle.inputs import count
from jostle.utils.progress import in_seconds

if TYPE_CHECKING:
    from jostle.core.strategy import Strategy


@dataclass(frozen=True)
class Plan:
    """Passes, time and memory that a call would take: `print(plan)` shows it as a table."""

    strategy: str
    """The name of the strategy."""
    examples: int
    """The number of examples to choose from."""
    picks: int
    """The number of picks."""
    passes: int
    """Examples that would go through the model, once for each perturbation, mask or member of a committee."""
    seconds: dict[str, float]
    """Seconds of `reading` and `scoring`, from a few timed micro-batches; selection comes on top."""
    memory: dict[str, int]
    """Bytes by parts: `model` (its private copy), `activations`, `rows`, `buffer`, `selection`."""
    peak: int
    """The most bytes at once: selection begins when the buffer is gone."""
    file: int
    """Bytes of rows that would go to a file."""
    extra_work: str
    """Work whose time is not part of `seconds`, such as a training."""
    notes: tuple[str, ...]
    """Messages, such as rows that would go to a file."""
    suggestions: tuple[str, ...]
    """Cheaper settings."""

    def __str__(self) -> str:
        title = f"{self.strategy}: {self.picks:,} of {self.examples:,} examples"
        return "\n".join([title, *(f"  {name:<9} {words}" for name, words in self.rows())])

    def rows(self) -> Iterator[tuple[str, str]]:
        """The lines of the table: a name, and its words."""
        yield (
            "passes",
            f"{self.passes:,} examples through the model, {self.passes / self.examples:.3g} of each",
        )
        parts = ", ".join(f"{part} {in_seconds(value)}" for part, value in self.seconds.items())
        yield "time", f"about {in_seconds(sum(self.seconds.values()))}: {parts}; selection comes on top"
        if self.extra_work:
            yield "", f"and {self.extra_work}, which is not part of that"
        parts = ", ".join(f"{part} {in_words(size)}" for part, size in self.memory.items())
        yield "memory", f"{in_words(self.peak)} at most: {parts}"
        if self.file:
            yield "on disk", f"{in_words(self.file)} of rows"
        for note in self.notes:
            yield "note", note
        for suggestion in self.suggestions:
            yield "cheaper", suggestion


def plan_query(strategy: Strategy, context: QueryContext, n: int) -> Plan:
    """Plan n picks without making them; a few micro-batches are read and timed."""
    estimate = strategy.estimate(context, n)
    placed = Placement(estimate, context.budget)
    placed.check(strategy.name)
    seconds, activations, model = {"reading": 0.0, "scoring": 0.0}, 0, 0
    if estimate.passes:
        reading, scoring, activations = measure(context)
        seconds = {"reading": len(context.pool) * reading, "scoring": estimate.passes * scoring}
        tensors = [*context.runner.module.parameters(), *context.runner.module.buffers()]
        model = sum(tensor.nbytes for tensor in tensors)
    if placed.spills:
        context.budget.note_spill(estimate.rows, "rows")
    return Plan(
        strategy=strategy.name,
        examples=len(context.pool),
        picks=n,
        passes=estimate.passes,
        seconds=seconds,
        memory={
            "model": model,
            "activations": activations,
            "rows": placed.held,
            "buffer": placed.computing,
            "selection": placed.selecting,
        },
        peak=model + placed.held + max(activations + placed.computing, placed.selecting),
        file=estimate.rows if estimate.cached or placed.spills else 0,
        extra_work=estimate.extra_work,
        notes=tuple(context.notes),
        suggestions=estimate.suggestions,
    )


BATCHES = 3  # micro-batches that are read and tried
TURNS = 3  # how often each is tried; the best counts


def measure(context: QueryContext) -> tuple[float, float, int]:
    """Read and run the first micro-batches: seconds to read an example, seconds of a pass, bytes of activations."""
    context.runner  # noqa: B018 - made here, so that no clock runs meanwhile
    start = time.perf_counter()
    batches = list(islice(context.batches(), BATCHES))
    examples = sum(map(count, batches))
    reading = (time.perf_counter() - start) / examples

    def once() -> float:
        start = time.perf_counter()
        for inputs in batches:
            context.runner.outputs(inputs)
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
        return time.perf_counter() - start

    with context.untracked():
        with PeakActivation() as widest:
            context.runner.outputs(batches[0])  # and libraries set themselves up
        scoring = min(once() for _ in range(TURNS)) / examples
    return reading, scoring, widest.bytes


class PeakActivation(TorchDispatchMode):
    """Knows the most bytes that the inputs and outputs of one operation took, weights left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = (t for t in tree_leaves((args, made)) if isinstance(t, Tensor))
        stores = [t.untyped_storage() for t in tensors if not isinstance(t, torch.nn.Parameter)]
        held = {store.data_ptr(): store.nbytes() for store in stores}
        self.bytes = max(self.bytes, sum(held.values()))
        return made
