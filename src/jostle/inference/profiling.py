"""A few micro-batches tried and timed, to tell what a whole pool would take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, arrays, count

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
        """What an example takes to be run, at its best."""
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
        held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in met if not is_weight(t)}
        self.bytes = max(self.bytes, sum(held.values()))
        return made


def is_weight(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter, which is counted with the model."""
    return isinstance(tensor, torch.nn.Parameter)


def tensors(values: Any) -> list[Tensor]:
    """All tensors in lists and tuples."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in tensors(value)]
    return []
