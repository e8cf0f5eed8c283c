"""Squared distances of rows to their nearest center, kept as upper bounds and made exact only where it matters.

A new center can only lower such a distance, so a distance that was exact once is an upper bound from then on. A
selector asks for exact distances of the few rows whose bounds are large. Centers that were added since the last look
are applied to all of these rows at once, as matrix products on blocks that fit the cache. The plain algorithm passes
over all rows for every pick instead.

Bounds are lowered in the dtype of the rows and rounded up. Rows that may be picked are compared by sums of squared
differences in float64. Their bits depend on the row and its center alone, so picks do not depend on the blocks or
machines that hold the rows.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from jostle.rows.geometry import (
    Rows,
    blocks,
    distance_bounds,
    joined,
    nearest_distances,
    rows_at,
    rows_at_once,
    unit_length,
    width,
)

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
