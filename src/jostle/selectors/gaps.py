"""Gaps: squared distances to the nearest center, kept as upper bounds and made exact only where it matters.

A new center can only lower a gap, so a gap that was right once is an upper bound for ever. A selector asks for
the exact gaps of the few rows whose bounds are large. The centers that came since their last visit are applied to
all of these at once: matrix products on blocks that fit the cache, where the plain algorithm runs over all rows
for every pick. Bounds are lowered in the rows' own precision, rounded up; rows that still contend are measured in
float64.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from jostle.rows.geometry import (
    Rows,
    blocks,
    distance_bounds,
    nearest_distances,
    rows_at,
    rows_at_once,
    squared_differences,
    squared_distances,
    unit_length,
    width,
)

CENTERS = 512  # centers applied at once
ROUND = 100_000  # what a look at a few rows costs besides the distances it measures, in distances
PASS = 16  # and a pass over all rows, for each
PICKED = -1.0  # below every gap

Measure = Callable[[Rows, Rows], Tensor]  # (n, d), (m, d) -> (n,)


class Gaps:
    """Bounds of all rows' gaps to the centers given and to the rows chosen since."""

    def __init__(self, rows: Rows, centers: Rows, *, unit: bool = False) -> None:
        self.rows, self.given, self.unit = rows, centers, unit
        self.own = torch.promote_types(rows.dtype, torch.float32)
        self.bounds = torch.full((len(rows),), torch.inf, dtype=torch.float64, device=rows.device)
        self.chosen = torch.empty(0, dtype=torch.int64, device=rows.device)
        self.bounded = torch.zeros_like(self.bounds, dtype=torch.int64)  # how many centers a bound knows of
        self.exact = torch.zeros_like(self.bounded)  # how many of them were measured in float64
        self.lowered = 0  # how many all bounds know of
        self.wasted = 0.0  # work on rows that did not contend, in distances
        self.lower_all()
        if not self.bounds.isfinite().all():
            raise ValueError("rows or centers are so large that their squares overflow; scale them down")

    @property
    def centers(self) -> int:
        """How many centers there are by now."""
        return len(self.given) + len(self.chosen)

    def lower_all(self) -> None:
        """Lower the bounds of all rows by the centers that came since this was done last."""
        self.wasted = 0.0
        for part in blocks(len(self.rows), per_row=max(width(self.rows), CENTERS)):
            rows = self._ready(self.rows[part], self.own)
            for _, centers in self._centers(self.lowered, self.own):
                self.bounds[part] = torch.minimum(self.bounds[part], distance_bounds(rows, centers))
        self.bounded.fill_(self.centers)
        self.lowered = self.centers

    def contenders(self, positions: Tensor, levels: Tensor) -> tuple[Tensor, Rows, Tensor]:
        """Those of the rows whose gaps reach their levels: positions, rows in float64, exact gaps."""
        asked, work = len(positions), ROUND
        if self.own != torch.float64:
            work += self._lower(positions, self.bounded, self.own, distance_bounds)
            reach = self.bounds[positions] >= levels
            positions, levels = positions[reach], levels[reach]
        work += self._lower(positions, self.exact, torch.float64, nearest_distances)
        positions = positions[self.bounds[positions] >= levels]
        self.wasted += work * (1 - len(positions) / asked)
        return positions, self._ready(rows_at(self.rows, positions), torch.float64), self.bounds[positions]

    def tidy(self) -> None:
        """Lower the bounds of all rows once looks at rows that did not contend have cost as much."""
        if self.wasted > len(self.rows) * (self.centers - self.lowered + PASS):
            self.lower_all()

    def choose(self, winners: Tensor, positions: Tensor, gaps: Tensor) -> None:
        """Make centers of the winners; the gaps of these positions, winners included, know of them already."""
        self.chosen = torch.cat([self.chosen, winners])
        self.bounds[positions] = gaps
        self.bounded[positions] = self.exact[positions] = self.centers

    def _lower(self, positions: Tensor, known: Tensor, dtype: torch.dtype, measure: Measure) -> int:
        """Lower the bounds of these rows by the centers new to them; how many distances that took."""
        positions = positions[(known[positions] < self.centers) & (self.bounds[positions] > 0)]
        if not len(positions):
            return 0
        since, order = known[positions].sort()
        positions = positions[order]
        rows, bounds = self._ready(rows_at(self.rows, positions), dtype), self.bounds[positions]
        for stop, centers in self._centers(int(since[0]), dtype):
            late = int(torch.searchsorted(since, stop))  # rows that do not know all of these centers
            bounds[:late] = torch.minimum(bounds[:late], measure(rows[:late], centers))
        self.bounds[positions] = bounds
        known[positions] = self.centers
        return int((self.centers - since).sum())

    def _centers(self, start: int, dtype: torch.dtype) -> Iterator[tuple[int, Rows]]:
        """Blocks of centers from number `start` on, each with the number after its last."""
        given, size = len(self.given), rows_at_once(CENTERS, self.rows)
        while start < self.centers:
            stop = min(start + size, given if start < given else self.centers)
            chosen = self.chosen[start - given : stop - given]
            yield (
                stop,
                self._ready(self.given[start:stop] if start < given else rows_at(self.rows, chosen), dtype),
            )
            start = stop

    def _ready(self, rows: Rows, dtype: torch.dtype) -> Rows:
        return unit_length(rows.to(dtype)) if self.unit else rows.to(dtype)


class Contest:
    """A few rows with exact gaps, among which picks follow each other without a look at any other row."""

    def __init__(self, rows: Rows, gaps: Tensor) -> None:
        self._rows = rows
        self.gaps = gaps.cpu().numpy().copy()
        distances, doubtful = squared_distances(rows, rows)
        self._distances = distances.clamp_(min=0).cpu().numpy()
        self._near = self._distances < doubtful.cpu().numpy()
        self._crowded = self._near.sum(1) > 1  # a row is always near itself

    def take(self, winner: int) -> None:
        """Make a center of a row: lower the others' gaps, and never offer it again."""
        distances = self._distances[winner]
        if self._crowded[winner]:
            near = (self._near[winner] & (self.gaps > 0)).nonzero()[0]
            partners = torch.from_numpy(near).to(self._rows.device)
            itself = torch.full_like(partners, winner)
            distances[near] = squared_differences(self._rows[partners], self._rows[itself]).cpu().numpy()
        np.minimum(self.gaps, distances, out=self.gaps)
        self.gaps[winner] = PICKED
