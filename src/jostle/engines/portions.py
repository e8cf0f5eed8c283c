"""A pool in portions that workers score apart, cut between micro-batches so that rows stay the same.

A position counts all examples of the pool, a place only the candidates, those that are not excluded. Neither depends
on the number of portions, and no list of all of them is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jostle.inference.context import Options
from jostle.inputs import Pool
from jostle.inputs.pool import positions_in
from jostle.inputs.sources import Batched, Columns, Items, Source, Window, cut, mapped


class Span(NamedTuple):
    """Places of a portion, from `start` up to `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class Candidates:
    """The examples of a pool that may be picked, by place."""

    source: Source
    excluded: Tensor  # (m,) positions, ascending
    workers: int = 0  # processes that read examples on this machine
    largest: int | None = None  # batch size of the user's loader

    @classmethod
    def of(cls, pool: Any, options: Options) -> Candidates:
        """Return the examples of a pool, as `select` takes it, without those that the options exclude."""
        source, workers, largest = Pool.parts_of(
            pool, options.get("collate_fn"), options.get("num_workers", 0)
        )
        return cls(source, positions_in(options.get("exclude"), len(source)), workers, largest)

    def __len__(self) -> int:
        return len(self.source) - len(self.excluded)

    def at(self, places: Tensor) -> Pool:
        """Return the examples at some places as a pool of this process."""
        return Pool(self.source, self.positions(places), self.workers, self.largest)

    def few(self, count: int) -> Pool:
        """Return the first examples, at most `count`, as a pool of this process, read by no workers."""
        return replace(self.at(torch.arange(min(count, len(self)))), workers=0)

    def positions(self, places: Tensor) -> Tensor:
        """Return the positions of some places."""
        before = self.excluded - torch.arange(len(self.excluded))  # candidates before each that is excluded
        return places + torch.searchsorted(before, places, right=True)

    def spans(self, micro_batch: int, size: int) -> Iterator[Span]:
        """Yield portions of at least `size` examples that cut no micro-batch."""
        start = 0
        for stop in self._cuts(micro_batch, size):
            if stop - start >= size:
                yield Span(start, stop)
                start = stop
        if start < len(self):
            yield Span(start, len(self))

    def _cuts(self, micro_batch: int, size: int) -> Iterator[int]:
        starts = getattr(self.source.holder, "starts", None) if isinstance(self.source, Batched) else None
        if starts is None:
            whole = -(-size // micro_batch) * micro_batch
            yield from range(whole, len(self), whole)
            return
        for start in starts[1:]:
            yield start - int(torch.searchsorted(self.excluded, start))

    @property
    def smallest(self) -> Portion:
        """The smallest portion from the beginning."""
        return self.portion(next(self.spans(1, 1)))

    def portion(self, span: Span) -> Portion:
        """Return a portion with a reader of its examples, and of no others where the pool can be cut."""
        positions = self.positions(torch.arange(span.start, span.stop))
        return Portion(span, positions, cut_out(self.source, positions))


@dataclass(frozen=True)
class Portion:
    """Examples that are scored together."""

    span: Span
    positions: Tensor
    source: Source | None
    """Reads them by position; None: the whole pool does."""

    def pool(self, whole: Source | None) -> Pool:
        """Return the examples as a pool whose positions are those of the whole one."""
        source = self.source if self.source is not None else whole
        assert source is not None
        return Pool(source, self.positions)


def cut_out(source: Source, positions: Tensor) -> Source | None:
    """Return a source of these positions only, under the same numbers, or None where it cannot be cut."""
    start, stop = int(positions[0]), int(positions[-1]) + 1
    if isinstance(source, Columns):
        inside: Source = Columns(mapped(lambda array: cut(array, start, stop), source.arrays))
    elif isinstance(source, Items) and isinstance(source.dataset, list):
        inside = Items(cut(source.dataset, start, stop), source.collate)
    elif isinstance(source, Batched) and (few := cut(source.holder, start, stop)) is not None:
        inside = Batched(few)
    else:
        return None
    return Window(inside, start, len(source))
