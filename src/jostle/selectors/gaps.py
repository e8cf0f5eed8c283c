"""Gaps: squared distances to the nearest center, kept as upper bounds and made exact only where it matters.

A new center can only lower a gap, so a gap that was right once is an upper bound for ever. A selector asks for
the exact gaps of the few rows whose bounds are large. The centers that came since their last visit are applied to
all of these at once: matrix products on blocks that fit the cache, where the plain algorithm runs over all rows
for every pick. Bounds are lowered in the rows' own precision, rounded up. What rows that still contend are judged by
are sums of squared differences in float64, whose bits depend on the row and its center alone: so picks do not depend
on how rows lie in blocks, or on which machines.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.rows.geometry import (
    Rows,
    blocks,
    distance_bounds,
    joined,
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
    """Bounds of all rows' gaps to the centers given so far."""

    def __init__(self, rows: Rows, centers: Rows, *, unit: bool = False) -> None:
        self.rows, self.unit = rows, unit
        self.own = torch.promote_types(rows.dtype, torch.float32)
        self.bounds = torch.full((len(rows),), torch.inf, dtype=torch.float64, device=rows.device)
        self.bounded = torch.zeros_like(self.bounds, dtype=torch.int64)  # how many centers a bound knows of
        self.exact = torch.zeros_like(self.bounded)  # how many of them were measured in float64
        self.centers = 0  # how many there are by now
        self.lowered = 0  # how many all bounds know of
        self.wasted = 0.0  # work on rows that did not contend, in distances
        self._blocks: list[Rows] = []  # the centers, all blocks but the last of the same size
        self.add(centers)
        self.lower_all()
        if not self.bounds.isfinite().all():
            raise ValueError("rows or centers are so large that their squares overflow; scale them down")

    def add(self, centers: Rows) -> None:
        """Make centers of further rows; bounds stay what they are, and right."""
        size = rows_at_once(CENTERS, self.rows)
        self.centers += len(centers)
        if self._blocks and len(self._blocks[-1]) < size:
            centers = joined([self._blocks.pop(), centers])
        self._blocks += [centers[start : start + size] for start in range(0, len(centers), size)]

    def lower_all(self) -> None:
        """Lower the bounds of all rows by the centers that came since this was done last."""
        self.wasted = 0.0
        for part in blocks(len(self.rows), per_row=max(width(self.rows), CENTERS), of=self.rows):
            rows = self.ready(self.rows[part], self.own)
            for _, centers in self._centers(self.lowered, self.own):
                self.bounds[part] = torch.minimum(self.bounds[part], distance_bounds(rows, centers))
        self.bounded.fill_(self.centers)
        self.lowered = self.centers

    def contenders(self, positions: Tensor, levels: Tensor) -> Tensor:
        """Those of the rows whose gaps reach their levels; their bounds are exact from now on."""
        asked, work = len(positions), ROUND
        if self.own != torch.float64:
            work += self._lower(positions, self.bounded, self.own, distance_bounds)
            reach = self.bounds[positions] >= levels
            positions, levels = positions[reach], levels[reach]
        work += self._lower(positions, self.exact, torch.float64, nearest_distances)
        positions = positions[self.bounds[positions] >= levels]
        self.wasted += work * (1 - len(positions) / max(1, asked))
        return positions

    def measure(self, positions: Tensor) -> None:
        """Make the bounds of these rows exact."""
        self._lower(positions, self.exact, torch.float64, nearest_distances)
        self.bounded[positions] = self.centers

    def tidy(self) -> None:
        """Lower the bounds of all rows once looks at rows that did not contend have cost as much."""
        if self.wasted > len(self.rows) * (self.centers - self.lowered + PASS):
            self.lower_all()

    def know(self, positions: Tensor, bounds: Tensor, exact: Tensor) -> None:
        """Take over bounds that know of all centers, some of them exact."""
        self.bounds[positions] = torch.minimum(self.bounds[positions], bounds)
        self.bounded[positions] = self.centers
        self.exact[positions[exact]] = self.centers

    def _lower(self, positions: Tensor, known: Tensor, dtype: torch.dtype, measure: Measure) -> int:
        """Lower the bounds of these rows by the centers new to them; how many distances that took."""
        positions = positions[(known[positions] < self.centers) & (self.bounds[positions] > 0)]
        if not len(positions):
            return 0
        since, order = known[positions].sort()
        positions = positions[order]
        rows, bounds = self.ready(rows_at(self.rows, positions), dtype), self.bounds[positions]
        for stop, centers in self._centers(int(since[0]), dtype):
            late = int(torch.searchsorted(since, stop))  # rows that do not know all of these centers
            bounds[:late] = torch.minimum(bounds[:late], measure(rows[:late], centers))
        self.bounds[positions] = bounds
        known[positions] = self.centers
        return int((self.centers - since).sum())

    def _centers(self, start: int, dtype: torch.dtype) -> Iterator[tuple[int, Rows]]:
        """Blocks of centers from number `start` on, each with the number after its last."""
        size = rows_at_once(CENTERS, self.rows)
        while start < self.centers:
            block, offset = divmod(start, size)
            centers = self._blocks[block][offset:]
            start += len(centers)
            yield start, self.ready(centers, dtype)

    def ready(self, rows: Rows, dtype: torch.dtype) -> Rows:
        """Rows as distances are measured between them."""
        return unit_length(rows.to(dtype)) if self.unit else rows.to(dtype)


class Contest:
    """A few rows with exact gaps, among which picks follow each other without a look at any other row.

    Gaps are bounds again once a pick may have lowered them; a row that comes out on top is measured.
    """

    def __init__(self, rows: Rows, gaps: Tensor) -> None:
        self._rows = rows  # float64
        self.gaps: NDArray[np.float64] = gaps.cpu().numpy().copy()  # never too small
        self.exact = np.ones(len(self.gaps), dtype=bool)
        self._before = self.gaps.copy()  # exact, as the contest began
        self._taken: list[int] = []
        distances, slack = squared_distances(rows, rows) if len(gaps) else (gaps[:, None], gaps)
        self._distances, self._slack = distances.cpu().numpy(), slack.cpu().numpy()

    def farthest(self) -> int:
        """The row with the largest gap, the first of several."""
        while not self.exact[first := int(self.gaps.argmax())]:
            self.measure(first)
        return first

    def measure(self, row: int) -> float:
        """The exact gap of a row."""
        if not self.exact[row]:
            distances = self._distances[self._taken, row]
            close = (distances <= distances.min() + 2 * self._slack[row]).nonzero()[0]
            partners = torch.tensor([self._taken[place] for place in close], device=self._rows.device)
            itself = torch.full_like(partners, row)
            apart = squared_differences(rows_at(self._rows, itself), rows_at(self._rows, partners))
            self.gaps[row] = min(self._before[row], float(apart.min()))
            self.exact[row] = True
        return float(self.gaps[row])

    def take(self, winner: int) -> None:
        """Make a center of a row: lower the others' gaps, and never offer it again."""
        self._taken.append(winner)
        distances = self._distances[winner]
        self.exact &= distances - self._slack >= self.gaps
        np.minimum(self.gaps, distances + self._slack, out=self.gaps)
        self.gaps[winner] = PICKED
        self.exact[self._taken] = True
