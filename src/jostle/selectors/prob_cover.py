"""Maximum coverage: balls of one radius, each around the row that covers most of what is still uncovered."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import (
    Rows,
    blocks,
    in_blocks,
    rounding,
    rows_at,
    squared_differences,
    squared_lengths,
)
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    block_room,
    break_ties,
    dense_rows,
    drawn_rest,
    seed_or_fresh,
    tie_keys,
)
from jostle.utils.progress import note

BLOCK = 1024  # rows whose mutual distances are one matrix
MAX_PAIRS = 2**22  # of neighbors that are kept; more are computed again when a row is covered
SURFACE = 1 - 1e-5  # of the squared radius: the row that set it lies on it, up to rounding


@dataclass(frozen=True)
class ProbCover(Selector):
    """Greedy cover: each pick's ball holds most rows that no center and no earlier pick covers, its score.

    Once all rows are covered, the rest is drawn with the seed, at a score of 0.
    """

    ranges: ClassVar = {"delta": "(0, inf)"}
    delta: float = 1.0
    """Radius of a ball, its surface not included."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed draws exact ties, and the rest once all rows are covered."""
        rows, centers = dense_rows("ProbCover", rows, n, centers)
        seed = seed_or_fresh(seed)
        keys = tie_keys(seed, torch.arange(len(rows), device=rows.device))
        graph = BallGraph(rows, SURFACE * self.delta**2)
        covered = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        if centers is not None:
            covered = graph.count_within(centers) > 0
        gains = graph.count_neighbors((~covered).nonzero()[:, 0])  # (n,) rows that a ball would newly cover
        positions, scores = list[int](), list[float]()
        while len(positions) < n and int(gains.max()) > 0:
            winner = break_ties(gains, keys)
            positions.append(winner)
            scores.append(float(gains[winner]))
            fresh = (graph.count_neighbors(torch.tensor([winner], device=rows.device)) > 0) & ~covered
            gains -= graph.count_neighbors(fresh.nonzero()[:, 0])
            covered |= fresh
            gains[winner] = 0
            note(1)
        left = n - len(positions)
        rest = drawn_rest(positions, left, len(rows), generator(seed, "prob-cover"))
        return Picks.of([*positions, *rest], [*scores, *[0.0] * left], rows.device)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of pairs of neighbors, of gains and tie keys, and of a few blocks of distances."""
        pairs = 4 * WORD * min(MAX_PAIRS, size * size)
        return pairs + 9 * WORD * size + 4 * WORD * BLOCK * (width + BLOCK) + block_room(size, width)


class BallGraph:
    """Pairs of rows within a squared distance of each other, a row and itself included.

    Distances are estimated in float32; pairs that rounding may decide are measured in float64. Pairs are kept where
    they are not too many. Otherwise every row's neighbors are computed again when they are asked for.
    """

    def __init__(self, rows: Tensor, squared_radius: float) -> None:
        self.rows, self.limit = rows, squared_radius
        self.lengths = in_blocks(
            rows, lambda part: squared_lengths(part.to(torch.float32)), rows.shape[1], torch.float32
        )
        self.dtype = torch.float32
        if not float(self.lengths.max()) < 1e37:  # squares overflow
            self.dtype = torch.float64
            self.lengths = in_blocks(
                rows, lambda part: squared_lengths(part.to(torch.float64)), rows.shape[1], torch.float64
            )
        self._starts, self._neighbors = self._kept_pairs()

    def count_within(self, centers: Tensor) -> Tensor:
        """Return how many of the centers lie within the radius of each row, (n,)."""
        lengths = squared_lengths(centers.to(self.dtype))
        counts = torch.zeros(len(self.rows), dtype=torch.int64, device=self.rows.device)
        for start in range(0, len(centers), BLOCK):
            some = slice(start, start + BLOCK)
            for part in blocks(len(self.rows), per_row=max(BLOCK, self.rows.shape[1]), of=self.rows):
                _, column = self._near(centers[some], lengths[some], self.rows[part], self.lengths[part])
                counts[part] += column.bincount(minlength=part.stop - part.start)
        return counts

    def count_neighbors(self, positions: Tensor) -> Tensor:
        """Return how many of the rows at some positions lie within the radius of each row, (n,)."""
        if self._neighbors is None:
            some = rows_at(self.rows, positions)
            assert isinstance(some, Tensor)
            return self.count_within(some)
        which = positions.cpu().numpy()
        first, counts = self._starts[which], self._starts[which + 1] - self._starts[which]
        ends = counts.cumsum()
        places = np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
        found = np.bincount(self._neighbors[places], minlength=len(self.rows))
        return torch.from_numpy(found).to(self.rows.device)

    def _kept_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int32] | None]:
        """Return where each row's neighbors begin, (n + 1,), and all neighbors in turn; None if too many."""
        from scipy.sparse import coo_array  # here, since it is slow to load

        size, found, total = len(self.rows), list[NDArray[np.int32]](), 0
        for pairs in self._pairs():
            total += 2 * len(pairs[0])
            if total > MAX_PAIRS:
                return np.empty(0, dtype=np.int64), None
            found.append(torch.stack(pairs).int().cpu().numpy())
        row, column = np.concatenate(found, axis=1)
        apart = row != column
        both = np.concatenate([row, column[apart]]), np.concatenate([column, row[apart]])
        ones = np.ones(len(both[0]), dtype=np.int8)
        matrix = coo_array((ones, both), shape=(size, size)).tocsr()
        return matrix.indptr.astype(np.int64), matrix.indices

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions of neighbors, each pair once, from blocks of rows."""
        size = len(self.rows)
        for start in range(0, size, BLOCK):
            some = slice(start, min(start + BLOCK, size))
            rows, lengths = self.rows[some], self.lengths[some]
            for other in range(start, size, BLOCK):
                part = slice(other, min(other + BLOCK, size))
                row, column = self._near(rows, lengths, self.rows[part], self.lengths[part])
                row, column = row + start, column + other
                once = row <= column if other == start else slice(None)
                yield row[once], column[once]

    def _near(
        self, rows: Tensor, lengths: Tensor, others: Tensor, other_lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the pairs of a row and one of the others within the radius, (pairs,) both."""
        apart = torch.addmm(other_lengths, rows.to(self.dtype), others.to(self.dtype).T, alpha=-2)
        tiny = rows.shape[1] * torch.finfo(self.dtype).tiny
        slack = (lengths + other_lengths.max()) * rounding(
            rows.new_empty(0, rows.shape[1], dtype=self.dtype)
        ) + tiny
        row, column = (apart < (self.limit - lengths + slack)[:, None]).nonzero().T
        unsure = apart[row, column] >= (self.limit - lengths - slack)[row]
        if unsure.any():
            pairs = unsure.nonzero()[:, 0]
            exact = squared_differences(
                rows[row[pairs]].to(torch.float64), others[column[pairs]].to(torch.float64)
            )
            unsure[pairs] = exact >= self.limit
            row, column = row[~unsure], column[~unsure]
        return row, column


def pure_radius(rows: Tensor, cells: Tensor, purity: float) -> float:
    """Return the largest radius at which this share of the rows has a ball without rows of a different cell.

    A ball is pure up to the nearest row of a different cell, so the radius is a quantile of those distances:
    no search over radii. Infinite where there is one cell only.
    """
    points = rows.to(torch.float64)
    impure = points.new_empty(len(rows))  # parts kept between large blocks would fragment the memory
    lengths = squared_lengths(points)
    for part in blocks(len(rows), per_row=max(rows.shape), of=rows):
        distances = (points[part] @ points.T).mul_(-2).add_(lengths).add_(lengths[part, None])
        distances[cells[part, None] == cells] = torch.inf
        impure[part] = distances.clamp_(min=0).amin(1)
    squared = impure.sort().values
    allowed = math.floor((1 - purity) * len(rows) + 1e-9)  # rows whose balls may be impure
    return math.sqrt(float(squared[min(allowed, len(rows) - 1)]))


prob_cover = ProbCover()
