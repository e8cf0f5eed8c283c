"""Micro-batches that are held together, so that a pool is read once for all jolts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from jostle.inputs import Inputs, arrays, count
from jostle.scoring.replay import Record

Measure = Callable[[Inputs, Tensor], Tensor]  # inputs, what is watched at rest -> its movement, (n, d)


@dataclass
class Chunk:
    """Micro-batches that meet all jolts together."""

    inputs: list[Inputs] = field(default_factory=list)
    clean: list[Tensor] = field(default_factory=list)  # what is watched of each at rest, (micro-batch, d)
    records: list[Record] = field(default_factory=list)  # what no jolt reaches
    size: int = 0  # examples
    held: int = 0  # bytes

    def add(self, inputs: Inputs, clean: Tensor | None = None, record: Record | None = None) -> None:
        """One more."""
        self.inputs.append(inputs)
        self.held += sum(array.nbytes for array in arrays(inputs))
        self.size += count(inputs)
        if clean is not None and record is not None:
            self.clean.append(clean)
            self.records.append(record)
            self.held += clean.nbytes + record.nbytes

    def under(self, movement: Measure) -> Iterator[Tensor]:
        """Movements of each, with what no jolt reaches given again."""
        for inputs, clean, record in zip(self.inputs, self.clean, self.records, strict=True):
            with record:
                moved = movement(inputs, clean)
            yield moved
