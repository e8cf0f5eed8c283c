"""Rows in one or more shards, perhaps on several machines.

A selector that works over shards runs one function on each of them (`Shards.gather`) and decides by the results alone.
Results are exact and name rows by their place in the whole pool, so picks do not depend on the number of shards or on
the order of their results. Plain rows in one process are the case of one shard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from jostle.rows.geometry import (
    Outer,
    Rows,
    blocks,
    distance_bounds,
    joined,
    nearest_distances,
    origin,
    rows_at,
    rows_at_once,
    unit_length,
    width,
)
from jostle.selectors.base import Picks, Selector, checked_rows

CENTERS_PER_BLOCK = 512
LOOK_COST = 100_000  # of one look at a few rows besides the distances it computes, in distances
PASS_COST = 16  # of one pass over all rows, for each row, in distances
PICKED = -1.0  # bound of a row that was picked, below every distance

Measure = Callable[[Rows, Rows], Tensor]  # (n, d), (m, d) -> (n,)


class DistanceBounds:
    """Upper bounds of the squared distance of each row to its nearest center."""

    def __init__(self, rows: Rows, centers: Rows, *, unit: bool = False) -> None:
        self.rows, self.unit = rows, unit
        self.row_dtype = torch.promote_types(rows.dtype, torch.float32)
        self.values = torch.full((len(rows),), torch.inf, dtype=torch.float64, device=rows.device)
        self.centers_bounded = torch.zeros_like(
            self.values, dtype=torch.int64
        )  # centers that a bound includes
        self.centers_measured = torch.zeros_like(self.centers_bounded)  # centers included exactly, in float64
        self.center_count = 0
        self.centers_in_all = 0  # centers that the bounds of all rows include
        self.wasted = 0.0  # work on rows that turned out too near, in distances
        self._blocks: list[Rows] = []  # the centers; all blocks but the last have the same size
        self.add_centers(centers)
        self.lower_all()
        if not self.values.isfinite().all():
            raise ValueError("rows or centers are so large that their squares overflow; scale them down")

    def add_centers(self, centers: Rows) -> None:
        """Add centers without a look at the rows; bounds stay valid."""
        size = rows_at_once(CENTERS_PER_BLOCK, self.rows)
        self.center_count += len(centers)
        if self._blocks and len(self._blocks[-1]) < size:
            centers = joined([self._blocks.pop(), centers])
        self._blocks += [centers[start : start + size] for start in range(0, len(centers), size)]

    def lower_all(self) -> None:
        """Lower the bounds of all rows by the centers that were added since the last call."""
        self.wasted = 0.0
        per_row = max(width(self.rows), CENTERS_PER_BLOCK)
        for part in blocks(len(self.rows), per_row=per_row, of=self.rows):
            rows = self.prepare(self.rows[part], self.row_dtype)
            for _, centers in self._centers(self.centers_in_all, self.row_dtype):
                self.values[part] = torch.minimum(self.values[part], distance_bounds(rows, centers))
        self.centers_bounded.fill_(self.center_count)
        self.centers_in_all = self.center_count

    def keep_far(self, positions: Tensor, levels: Tensor) -> Tensor:
        """Measure these rows and return the positions of those at least as far as their levels, (k,)."""
        asked, work = len(positions), LOOK_COST
        if self.row_dtype != torch.float64:
            work += self._lower(positions, self.centers_bounded, self.row_dtype, distance_bounds)
            far = self.values[positions] >= levels
            positions, levels = positions[far], levels[far]
        work += self._lower(positions, self.centers_measured, torch.float64, nearest_distances)
        positions = positions[self.values[positions] >= levels]
        self.wasted += work * (1 - len(positions) / max(1, asked))
        return positions

    def measure(self, positions: Tensor) -> None:
        """Make the bounds of these rows exact."""
        self._lower(positions, self.centers_measured, torch.float64, nearest_distances)
        self.centers_bounded[positions] = self.center_count

    def lower_all_if_wasteful(self) -> None:
        """Lower all bounds once looks at rows that were too near have cost as much as that."""
        if self.wasted > len(self.rows) * (self.center_count - self.centers_in_all + PASS_COST):
            self.lower_all()

    def update(self, positions: Tensor, values: Tensor, exact: Tensor) -> None:
        """Take over bounds of some rows that include all centers; `exact` says which of them are distances."""
        self.values[positions] = torch.minimum(self.values[positions], values)
        self.centers_bounded[positions] = self.center_count
        self.centers_measured[positions[exact]] = self.center_count

    def _lower(self, positions: Tensor, included: Tensor, dtype: torch.dtype, measure: Measure) -> int:
        """Lower the bounds of these rows by the centers new to them; return how many distances that took."""
        positions = positions[(included[positions] < self.center_count) & (self.values[positions] > 0)]
        if not len(positions):
            return 0
        since, order = included[positions].sort()
        positions = positions[order]
        rows, values = self.prepare(rows_at(self.rows, positions), dtype), self.values[positions]
        for stop, centers in self._centers(int(since[0]), dtype):
            late = int(torch.searchsorted(since, stop))  # rows that miss some of these centers
            values[:late] = torch.minimum(values[:late], measure(rows[:late], centers))
        self.values[positions] = values
        included[positions] = self.center_count
        return int((self.center_count - since).sum())

    def _centers(self, start: int, dtype: torch.dtype) -> Iterator[tuple[int, Rows]]:
        """Yield blocks of centers from number `start` on, each with the number after its last."""
        size = rows_at_once(CENTERS_PER_BLOCK, self.rows)
        while start < self.center_count:
            block, offset = divmod(start, size)
            centers = self._blocks[block][offset:]
            start += len(centers)
            yield start, self.prepare(centers, dtype)

    def prepare(self, rows: Rows, dtype: torch.dtype) -> Rows:
        """Convert rows to a dtype, and to unit length where distances are between unit rows."""
        return unit_length(rows.to(dtype)) if self.unit else rows.to(dtype)


NO_RIVAL = 2**63 - 1  # a tie key after every other

T = TypeVar("T")


class Candidates(NamedTuple):
    """Rows of a shard that may be picked next."""

    places: Tensor
    """(k,), ascending."""
    rows: Rows
    """(k, d), unscaled."""
    distances: Tensor
    """Exact squared distance of each to its nearest center, (k,) float64."""
    level: float
    """Distance that a pick has to beat: a row of the shard that is not listed may have it."""
    rival: int
    """The smallest tie key of rows that are not listed and may reach the level."""


class KnownDistances(NamedTuple):
    """Squared distances of former candidates to their nearest center, after some of them were picked."""

    places: Tensor
    """(k,)."""
    distances: Tensor
    """(k,) float64, upper bounds."""
    exact: Tensor
    """(k,) bool, which of them are exact."""


class Shard:
    """Some rows of a pool with their places, and bounds of their distances to centers."""

    def __init__(
        self, rows: Rows, places: Tensor, checked: bool = False, weights: Tensor | None = None
    ) -> None:
        self.rows, self.places = rows, places.to(rows.device)  # places ascend
        self.weights = weights  # (n,); None: all rows count the same
        self.checked = checked  # rows are finite floating matrices
        self.seed = 0  # draws among exact ties
        self._bounds: DistanceBounds | None = None

    @classmethod
    def merge(cls, shards: Sequence[Shard]) -> Shard:
        """Make one shard of several whose places follow each other."""
        rows = joined([shard.rows for shard in shards]) if len(shards) > 1 else shards[0].rows
        weights = [shard.weights for shard in shards if shard.weights is not None]
        places = torch.cat([shard.places for shard in shards])
        return cls(rows, places, weights=torch.cat(weights) if weights else None)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def bounds(self) -> DistanceBounds:
        """Bounds of distances to the centers since `start`."""
        assert self._bounds is not None, "start comes first"
        return self._bounds

    def matrix(self, centers: Rows | None = None) -> Rows:
        """Return the rows as a matrix, checked once: finite, and as wide as the centers."""
        if not self.checked:
            self.rows, _ = checked_rows(self.rows, 1, centers)
            self.checked = True
        return self.rows

    def start(self, centers: Rows | None, unit: bool, seed: int, picked: Sequence[int]) -> None:
        """Start a selection from these centers, or from the origin; `picked` places cannot be picked again."""
        rows = self.matrix(centers)
        centers = None if centers is None else centers.to(rows.device)
        self._bounds = DistanceBounds(rows, origin(rows) if centers is None else centers, unit=unit)
        self.seed = seed
        self.mark_picked(torch.tensor(picked, dtype=torch.int64))

    def add_centers(self, rows: Rows, places: Tensor) -> None:
        """Add picked rows of any shard as centers; those of this shard cannot be picked again."""
        self.bounds.add_centers(rows.to(self.rows.device))
        self.mark_picked(places)

    def mark_picked(self, places: Tensor) -> None:
        """Exclude these places, as far as they belong to this shard."""
        here, _ = self._here(places)
        self.bounds.values[here] = PICKED

    def held(self, places: Tensor | None, weights: bool) -> tuple[Tensor, Rows | None]:
        """Return places, (k,), and rows, or else weights, at those of some `places` that are here; None: at all."""
        values = self.weights if weights else self.rows
        if places is None or values is None:
            return self.places, values
        here, _ = self._here(places)
        return self.places[here], rows_at(values, here)

    def update(self, known: KnownDistances | None) -> DistanceBounds:
        """Return the bounds, updated by what the caller learned of former candidates."""
        if known is not None:
            here, mine = self._here(known.places)
            self.bounds.update(here, known.distances.to(here.device)[mine], known.exact.to(here.device)[mine])
            self.bounds.lower_all_if_wasteful()
        return self.bounds

    def candidates(self, positions: Tensor, level: float, rival: int = NO_RIVAL) -> Candidates:
        """Return the rows at these positions of the shard, whose bounds are exact."""
        rows = rows_at(self.rows, positions)
        return Candidates(self.places[positions], rows, self.bounds.values[positions], level, rival)

    def _here(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions of those places that are in this shard, and a mask of which places these are."""
        places = places.to(self.places.device)
        at = torch.searchsorted(self.places, places)
        mine = at < torch.searchsorted(self.places, places, right=True)
        return at[mine], mine


class Shards(ABC):
    """All shards of a pool."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows in all shards."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of shards."""

    @abstractmethod
    def gather(self, function: Callable[[Shard], T]) -> list[T]:
        """Return what a function returns for each shard, in any order.

        Args:
            function: A function of a module, with its arguments bound by `functools.partial`: it is pickled.
        """

    @abstractmethod
    def broadcast(self, function: Callable[[Shard], None]) -> None:
        """Run a function on each shard for its effect; a shard that is rebuilt repeats all since `start`."""

    def start(self, centers: Rows | None, unit: bool, seed: int, picked: Sequence[int] = ()) -> None:
        """Start a selection.

        Args:
            centers: Rows already chosen, (m, d); None: start from the origin.
            unit: Whether rows are scaled to unit length.
            seed: Draws among exact ties follow from it.
            picked: Places that cannot be picked again.
        """
        self.broadcast(partial(Shard.start, centers=centers, unit=unit, seed=seed, picked=picked))

    def add_centers(self, rows: Rows, places: Tensor) -> None:
        """Add picked `rows` as centers; their `places` cannot be picked again."""
        self.broadcast(partial(Shard.add_centers, rows=rows, places=places))

    def collect(self, places: Tensor | None = None) -> Rows:
        """Return the rows at some places that ascend, (k, d); None: all rows."""
        rows = self._collect(places, weights=False)
        assert rows is not None
        return rows

    def collect_weights(self) -> Tensor | None:
        """Return the weights of all rows, (n,); None: all count the same."""
        weights = self._collect(None, weights=True)
        assert not isinstance(weights, Outer)
        return weights

    def _collect(self, places: Tensor | None, weights: bool) -> Rows | None:
        found = self.gather(partial(Shard.held, places=places, weights=weights))
        values = [rows for _, rows in found if rows is not None]
        if len(values) < 2:
            return values[0] if values else None
        return rows_at(joined(values), torch.cat([held for held, _ in found]).argsort())


class ShardedSelector(Selector):
    """A selector that works over shards: plain rows are checked, and are one shard."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; equal seeds give equal picks."""
        rows, centers = checked_rows(rows, n, centers)
        return self.pick_over(LocalShards.of_rows(rows), n, centers=centers, seed=seed)


class LocalShards(Shards):
    """Shards in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards

    @classmethod
    def of_rows(cls, rows: Rows, weights: Tensor | None = None) -> LocalShards:
        """Take all rows as one shard, their positions as places; rows and weights are checked."""
        return cls([Shard(rows, torch.arange(len(rows), device=rows.device), True, weights)])

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    @property
    def count(self) -> int:
        """Number of shards."""
        return len(self.shards)

    def gather(self, function: Callable[[Shard], T]) -> list[T]:
        """Return what a function returns for each shard, in their order."""
        return [function(shard) for shard in self.shards]

    def broadcast(self, function: Callable[[Shard], None]) -> None:
        """Run a function on each shard."""
        for shard in self.shards:
            function(shard)
