"""Inputs that can be had again: arrays as they lie; of what is decoded, as much as there is room for, and the rest is
read a second time and compared, since what is drawn anew each time would be another example.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from jostle.inputs import Inputs, Pool, arrays, count, mapped
from jostle.inputs.sources import Columns, Window
from jostle.rng import generator
from jostle.scoring.request import Request

NEAR = 1e-6  # marks this near are equal: sums are rounded, and what is drawn anew differs by more
MARKS = 24  # bytes that are known of each example


class Unrepeatable(Exception):  # noqa: N818
    """Examples of a pool cannot be had again as they were."""


class Again:
    """The inputs of a pool for those who come back to some; the most promising ones are held."""

    def __init__(self, request: Request, room: int) -> None:
        self.request = request
        self.whole = in_arrays(request.pool)
        size = 0 if self.whole else len(request.pool)
        self.most = min(size, room // example_bytes(request))
        self.kept: Inputs | None = None  # every array with as many examples as are held
        self.slots = torch.full((size,), -1)  # where each example is held
        self.owners = torch.full((self.most,), -1)  # and whose each place is
        self.promise = torch.full((self.most,), -torch.inf, dtype=torch.float64)
        self.marks = torch.zeros(size, dtype=torch.float64)
        self.done = 0  # examples seen so far

    @staticmethod
    def taken(request: Request, room: int) -> int:
        """Bytes of what is held; none where inputs lie in arrays anyway."""
        if in_arrays(request.pool):
            return 0
        return min(len(request.pool) * example_bytes(request), room) + MARKS * len(request.pool)

    def keep(self, inputs: Inputs, promise: Tensor) -> None:
        """The next batch of the pool, and what each of its examples promises: the more, the sooner it comes again."""
        if self.whole:
            return
        if self.kept is None:
            self.kept = mapped(lambda array: array.new_empty(self.most, *array.shape[1:]), inputs)
        self.check_shapes(inputs)
        places = torch.arange(self.done, self.done + count(inputs))
        if self.most < len(self.slots):
            self.marks[places] = marks_of(inputs)
        self.done += len(places)
        slots, come = self.admitted(promise.cpu().double())
        left = self.owners[slots]
        self.slots[left[left >= 0]] = -1
        self.slots[places[come]] = slots
        self.owners[slots], self.promise[slots] = places[come], promise.cpu().double()[come]
        for whole, part in zip(arrays(self.kept), arrays(inputs), strict=True):
            whole[slots] = part[come]

    def admitted(self, promise: Tensor) -> tuple[Tensor, Tensor]:
        """Places for those of a batch that are held from now on, and which of the batch these are."""
        if self.done <= self.most:
            return torch.arange(self.done - len(promise), self.done), torch.arange(len(promise))
        best = torch.cat([self.promise, promise]).topk(self.most).indices
        free = torch.ones(self.most, dtype=torch.bool)
        free[best[best < self.most]] = False
        return free.nonzero()[:, 0], best[best >= self.most] - self.most

    def check_shapes(self, inputs: Inputs) -> None:
        """Give up where a batch is not shaped as those before it."""
        if [part.shape[1:] for part in arrays(inputs)] != [whole.shape[1:] for whole in arrays(self.kept)]:
            raise Unrepeatable("examples have no one shape, as where each batch is padded for itself")

    def has(self, who: Tensor) -> Tensor:
        """Which of these examples can be had without reading them again, (n,)."""
        return torch.ones_like(who, dtype=torch.bool) if self.whole else self.slots[who] >= 0

    def batches(self, who: Tensor) -> tuple[Tensor, Iterator[Inputs]]:
        """The examples at these places of the pool, in the order in which they come: first those that are held; and
        their prepared micro-batches.
        """
        if self.whole:
            return who, self.request.batches(self.request.pool.take(who))
        held = self.has(who)
        return torch.cat([who[held], who[~held]]), self._batches(who[held], who[~held])

    def _batches(self, held: Tensor, others: Tensor) -> Iterator[Inputs]:
        pool = self.request.pool
        near = Pool(Columns(self.kept), torch.arange(self.most), largest_batch=pool.largest_batch)
        if len(held):
            yield from self.request.batches(near.take(self.slots[held]))
        for inputs in self.request.batches(pool.take(others)) if len(others) else ():
            self.check_shapes(inputs)
            here, others = others[: count(inputs)], others[count(inputs) :]
            if not torch.allclose(marks_of(inputs), self.marks[here], NEAR, NEAR, equal_nan=True):
                raise Unrepeatable("examples come out otherwise each time that they are read")
            yield inputs


def marks_of(inputs: Inputs) -> Tensor:
    """A number for each example that tells it from others, also from its mirror image, (n,)."""
    flat = torch.cat([part.reshape(len(part), -1).double() for part in arrays(inputs)], 1)
    weights = torch.rand(flat.shape[1], generator=generator(0, "marks"), dtype=torch.float64)
    return (flat @ weights.to(flat.device)).cpu()


def example_bytes(request: Request) -> int:
    """What the inputs of an example take."""
    example = request.network.example
    return -(-sum(array.nbytes for array in arrays(example)) // count(example))


def in_arrays(pool: Pool) -> bool:
    """Whether examples lie in arrays, or in a part of some: all have one shape, and some are at hand at any time."""
    source = pool.source
    return isinstance(source.inside if isinstance(source, Window) else source, Columns)
