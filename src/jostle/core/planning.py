"""Plans of queries: passes, time and memory, from an `Estimate` and a few timed micro-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from jostle.inference.context import QueryContext
from jostle.inference.memory import Placement, in_words
from jostle.inputs import Inputs, arrays, count
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
        lines = [f"{self.strategy}: {self.picks:,} of {self.examples:,} examples"]
        return "\n".join([*lines, *(f"  {name:<9} {words}" for name, words in self.rows())])

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
        profile = Profile.of(context)
        scoring = estimate.passes * profile.seconds(context.runner.outputs)
        seconds = {"reading": len(context.pool) * profile.reading, "scoring": scoring}
        tensors = [*context.runner.module.parameters(), *context.runner.module.buffers()]
        activations, model = profile.activations, sum(tensor.nbytes for tensor in tensors)
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


@dataclass(frozen=True)
class Profile:
    """A few micro-batches of a context's pool, and how long an example took to be read."""

    context: QueryContext
    batches: tuple[Inputs, ...]
    reading: float  # seconds for each example

    @classmethod
    def of(cls, context: QueryContext) -> Profile:
        """Read the first micro-batches."""
        context.runner  # noqa: B018 - made here, so that no clock runs meanwhile
        start = time.perf_counter()
        batches = tuple(islice(context.batches(), BATCHES))
        return cls(context, batches, (time.perf_counter() - start) / sum(map(count, batches)))

    @property
    def each(self) -> int:
        """Bytes of an example's inputs."""
        held = sum(array.nbytes for inputs in self.batches for array in arrays(inputs))
        return held // sum(map(count, self.batches))

    def seconds(self, run: Callable[[Inputs], Any]) -> float:
        """Return the fewest seconds that one example took."""
        with self.context.untracked():
            run(self.batches[0])  # libraries set themselves up
            taken = min(self.once(run) for _ in range(TURNS))
        return taken / sum(map(count, self.batches))

    def once(self, run: Callable[[Inputs], Any]) -> float:
        """All of them once, in seconds."""
        start = time.perf_counter()
        for inputs in self.batches:
            run(inputs)
        if self.context.device.type == "cuda":
            torch.cuda.synchronize(self.context.device)
        return time.perf_counter() - start

    @property
    def activations(self) -> int:
        """Bytes that a micro-batch takes on its way through the model: the most that one operation reads and writes."""
        widest = PeakActivation()
        with self.context.untracked(), widest:
            self.context.runner.outputs(self.batches[0])
        return widest.bytes


class PeakActivation(TorchDispatchMode):
    """Knows the most bytes that the inputs and outputs of one operation took, weights left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        met = [*tensors(args), *tensors(made)]
        stores = [t.untyped_storage() for t in met if not isinstance(t, torch.nn.Parameter)]
        held = {store.data_ptr(): store.nbytes() for store in stores}
        self.bytes = max(self.bytes, sum(held.values()))
        return made


def tensors(values: Any) -> list[Tensor]:
    """All tensors in lists and tuples."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in tensors(value)]
    return []
