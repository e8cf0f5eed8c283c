"""Any dataset, array or tensor, seen as inputs only: targets cannot leak into a strategy."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from jostle.inputs.batches import Inputs
from jostle.inputs.frames import is_frame, numbers_of
from jostle.inputs.sources import Collate, Columns, Source, Window, as_source, unshuffled


@dataclass(frozen=True)
class Pool:
    """Inputs by position, batch by batch; `Pool.of` makes one of anything that holds inputs."""

    source: Source
    """What holds the examples."""
    positions: Tensor
    """Which examples these are in the user's own numbering, (n,)."""
    workers: int = 0
    """Worker processes that read examples."""
    largest_batch: int | None = None
    """At most so many at once, since the user's data loader knows what fits; None: any number."""

    @classmethod
    def of(cls, holder: Any, collate_fn: Collate | None = None, num_workers: int = 0) -> Pool:
        """See a tensor, array, dict of columns, dataset, data loader or list as inputs.

        Args:
            holder: Any of these; a pool is taken as it is.
            collate_fn: Puts examples together to a batch, as a `DataLoader` takes it.
            num_workers: Worker processes that read examples.
        """
        if isinstance(holder, Pool):
            return holder
        source, num_workers, largest = cls.parts_of(holder, collate_fn, num_workers)
        return cls(source, torch.arange(len(source), device="cpu"), num_workers, largest)

    @staticmethod
    def parts_of(holder: Any, collate_fn: Collate | None, num_workers: int) -> tuple[Source, int, int | None]:
        """The source of a pool, its workers and its largest batch, without a list of positions.

        Args:
            holder: As `of` takes it.
            collate_fn: As `of` takes it.
            num_workers: As `of` takes it.
        """
        if isinstance(holder, Pool):
            if len(holder) != len(holder.source):
                raise ValueError("a part of a pool cannot be cut into shards: pass all of it, and exclude=")
            return holder.source, holder.workers, holder.largest_batch
        largest = None
        if isinstance(holder, DataLoader):
            largest = holder.batch_size
            holder, collate_fn, num_workers = unshuffled(holder, collate_fn, num_workers)
        if hasattr(holder, "to_numpy"):
            holder, collate_fn = numbers_of(holder) if is_frame(holder) else holder.to_numpy(), None
        return as_source(holder, collate_fn), num_workers, largest

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def in_arrays(self) -> bool:
        """Whether examples lie in arrays, so that all have one shape."""
        source = self.source.inside if isinstance(self.source, Window) else self.source
        return isinstance(source, Columns)

    def without(self, excluded: Any) -> Pool:
        """The pool less the positions that are `excluded`; all of it less None."""
        if excluded is None:
            return self
        gone = positions_in(excluded, len(self.source))
        return replace(self, positions=self.positions[~torch.isin(self.positions, gone)])

    def take(self, places: Tensor) -> Pool:
        """The examples at these `places` of this pool."""
        return replace(self, positions=self.positions[places])

    def batches(self, size: int) -> Iterator[Inputs]:
        """All inputs in order, `size` examples at a time."""
        return self.source.batches(self.positions, size, self.workers)

    def first(self, count: int) -> Inputs:
        """The first inputs, at most `count`, as one batch."""
        if not len(self):
            raise ValueError("the pool is empty: there is nothing to choose from")
        return next(
            replace(self.take(torch.arange(min(count, len(self)), device="cpu")), workers=0).batches(count)
        )


def positions_in(excluded: Any, size: int) -> Tensor:
    """Distinct positions of a pool of this `size`, ascending, or an error; none for None."""
    gone = torch.empty(0, dtype=torch.int64) if excluded is None else as_positions(excluded).unique()
    if len(gone) and not (int(gone[0]) >= 0 and int(gone[-1]) < size):
        raise ValueError(
            f"exclude holds positions {int(gone[0])} to {int(gone[-1])}, "
            f"but the pool's positions are 0 to {size - 1}"
        )
    return gone


def as_positions(excluded: Any) -> Tensor:
    """Positions as a tensor on the CPU; a mask or fractions are refused, since they would be misread."""
    if isinstance(excluded, Tensor):
        excluded = excluded.cpu()
    held = np.asarray(sorted(excluded) if isinstance(excluded, (set, frozenset)) else excluded)
    if held.size and not np.issubdtype(held.dtype, np.integer):
        raise ValueError(
            f"exclude holds positions, whole numbers; got {held.dtype}: of a mask, pass its nonzero places"
        )
    return torch.from_numpy(held.astype(np.int64).reshape(-1))


def check_count(n: int, candidates: Sized, inputs: Sized) -> int:
    """n, so many of the `candidates` as can be chosen, or an error that says why not; `inputs` is the pool before any
    were excluded.
    """
    if not len(inputs):
        raise ValueError("the pool is empty: there is nothing to choose from")
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 1:
        raise ValueError(f"asked for n={n!r} examples; n is a whole number of at least 1")
    if n > len(candidates):
        less = f" less {len(inputs) - len(candidates)} excluded" if len(candidates) < len(inputs) else ""
        raise ValueError(f"asked for {n} examples from a pool of {len(inputs)}{less}")
    return operator.index(n)
