"""Maximum coverage: balls of one radius, each around the row that covers most of what is still uncovered."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows, blocks, rows_at, squared_distances
from jostle.selectors.base import WORD, Picks, Selector, block_room, dense_rows

BALLS = 1024  # whose contents are counted at once
SURFACE = 1 - 1e-5  # of the squared radius: the row that set it lies on it, up to rounding


@dataclass(frozen=True)
class ProbCover(Selector):
    """Greedy cover: each pick's ball holds most rows that no center and no earlier pick covers, its score.

    The graph of neighbours is never stored: every row is visited once when it becomes covered. Once all rows
    are covered, the rest is drawn with the seed, at a score of 0.
    """

    delta: float = 1.0
    """Radius of a ball, its surface not included."""

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ValueError(f"delta is the radius of a ball and above 0; got {self.delta}")

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; ties go to the earlier row."""
        rows, centers = dense_rows("ProbCover", rows, n, centers)
        covered = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        if centers is not None:
            covered = self._within(rows, centers, torch.arange(len(centers), device=rows.device)) > 0
        gains = self._within(
            rows, rows, (~covered).nonzero()[:, 0]
        )  # (n,) rows that a ball would newly cover
        positions, scores = list[int](), list[float]()
        while len(positions) < n and int(gains.max()) > 0:
            winner = int(gains.argmax())
            positions.append(winner)
            scores.append(float(gains[winner]))
            fresh = (self._within(rows, rows, torch.tensor([winner], device=rows.device)) > 0) & ~covered
            gains -= self._within(rows, rows, fresh.nonzero()[:, 0])
            covered |= fresh
            gains[winner] = 0
            note(1)
        return _filled(positions, scores, n, rows, seed)

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """All distances, whatever is picked."""
        return size**2

    def room(self, size: int, width: int, n: int) -> int:
        """What each ball would cover, and a thousand balls at once."""
        return 5 * WORD * size + 2 * WORD * BALLS * width + block_room(size, width)

    def _within(self, rows: Tensor, others: Tensor, which: Tensor) -> Tensor:
        """How many of the others, those at some positions, lie within delta of each row, (n,)."""
        counts = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
        for positions in which.split(BALLS) if len(which) else ():
            few = rows_at(others, positions).to(torch.float64)
            assert isinstance(few, Tensor)
            for part in blocks(len(rows), per_row=max(few.shape), of=rows):
                distances, _ = squared_distances(rows[part].to(torch.float64), few)
                counts[part] += (distances < SURFACE * self.delta**2).sum(1)
        return counts


def _filled(positions: list[int], scores: list[float], n: int, rows: Tensor, seed: int | None) -> Picks:
    draws = generator(fresh_seed() if seed is None else seed, "prob-cover")
    taken = torch.zeros(len(rows), dtype=torch.bool)
    taken[positions] = True
    left = (~taken).nonzero()[:, 0]
    rest = left[torch.randperm(len(left), generator=draws, device=draws.device)[: n - len(positions)]]
    order = torch.cat([torch.tensor(positions, dtype=torch.int64), rest])
    values = torch.tensor(scores + [0.0] * len(rest), dtype=torch.float64)
    return Picks(order.to(rows.device), values.to(rows.device))


def pure_radius(rows: Tensor, cells: Tensor, purity: float) -> float:
    """The largest radius at which this share of the rows has a ball without rows of another cell.

    A ball is pure up to the nearest row of another cell, so the radius is a quantile of those distances:
    no search over radii. Infinite where there is one cell only.
    """
    points = rows.to(torch.float64)
    reach = points.new_empty(len(rows))  # parts that were kept between large blocks would break up the memory
    for part in blocks(len(rows), per_row=max(rows.shape), of=rows):
        distances, _ = squared_distances(points[part], points)
        distances[cells[part, None] == cells] = torch.inf
        reach[part] = distances.clamp_(min=0).amin(1)
    squared = reach.sort().values
    allowed = math.floor((1 - purity) * len(rows) + 1e-9)  # rows whose balls may be impure
    return math.sqrt(float(squared[min(allowed, len(rows) - 1)]))


prob_cover = ProbCover()
