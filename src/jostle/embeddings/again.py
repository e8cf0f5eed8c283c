"""Inputs that can be had again without reading a pool twice: what is decoded or drawn anew would cost, or differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.inputs import Inputs, Pool, arrays, count, mapped
from jostle.inputs.sources import Columns, Window
from jostle.scoring.request import Request


class Uneven(Exception):  # noqa: N818
    """Batches of a pool do not fit together: sequences that each batch pads for itself, say."""


@dataclass
class Again:
    """The inputs of a pool for those who come back to some: arrays as they lie, anything else as it was read."""

    request: Request
    kept: Inputs | None = None  # every array with all examples
    done: int = 0  # examples kept so far

    @staticmethod
    def taken(request: Request) -> int:
        """What copies of a pool's inputs take; none where they lie in arrays anyway."""
        example = request.network.example
        each = -(-sum(array.nbytes for array in arrays(example)) // count(example))
        return 0 if in_arrays(request.pool) else len(request.pool) * each

    def keep(self, inputs: Inputs) -> None:
        """The next batch of the pool."""
        if in_arrays(self.request.pool):
            return
        if self.kept is None:
            size = len(self.request.pool)
            self.kept = mapped(lambda array: array.new_empty(size, *array.shape[1:]), inputs)
        wholes, parts = list(arrays(self.kept)), list(arrays(inputs))
        here = slice(self.done, self.done + count(inputs))
        if [whole[here].shape for whole in wholes] != [part.shape for part in parts]:
            raise Uneven
        for whole, part in zip(wholes, parts, strict=True):
            whole[here] = part
        self.done = here.stop

    def batches(self, who: Tensor) -> Iterator[Inputs]:
        """Prepared micro-batches of the examples at these places of the pool."""
        pool = self.request.pool
        if self.kept is not None:
            pool = Pool(Columns(self.kept), torch.arange(len(pool)), largest_batch=pool.largest_batch)
        return self.request.batches(pool.take(who))


def in_arrays(pool: Pool) -> bool:
    """Whether examples lie in arrays, or in a part of some: all have one shape, and some are at hand at any time."""
    source = pool.source
    return isinstance(source.inside if isinstance(source, Window) else source, Columns)
