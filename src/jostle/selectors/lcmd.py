"""Largest cluster, maximum distance: the farthest row of the cluster that is worst represented."""

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rows.geometry import (
    Rows,
    blocks,
    in_blocks,
    squared_differences,
    squared_distances,
)
from jostle.selectors.base import PASS, WORD, Picks, Selector, block_room, dense_rows

PICKED = -1.0  # below every gap


@dataclass(frozen=True)
class LCMD(Selector):
    """Rows cluster around their nearest center; each pick is the farthest row of the heaviest cluster.

    A cluster weighs the sum of its squared distances, and a pick becomes a center; its score is its distance.
    Without centers all rows start around the origin, so the first pick is the longest row.
    """

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed changes nothing, ties go to the earlier row or center."""
        rows, centers = dense_rows("LCMD", rows, n, centers)
        centers = torch.zeros_like(rows[:1]) if centers is None else centers
        nearest, gaps = _nearest(rows, centers.to(torch.float64))
        positions, scores = list[int](), list[float]()
        for turn in range(n):
            winner = _farthest_of_heaviest(nearest, gaps, len(centers) + turn)
            positions.append(winner)
            scores.append(float(gaps[winner]))
            distances = _distances(rows, winner)
            closer = distances < gaps
            nearest[closer], gaps[closer] = len(centers) + turn, distances[closer]
            gaps[winner] = PICKED
            note(1)
        squared = torch.tensor(scores, dtype=torch.float64, device=rows.device)
        return Picks(torch.tensor(positions, device=rows.device), squared.sqrt())

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """A pass over all rows for every pick."""
        return size * (PASS * n + known)

    def room(self, size: int, width: int, n: int) -> int:
        """The nearest center of each row and the distance to it, looked at for every pick."""
        return 7 * WORD * size + block_room(size, width)


def _farthest_of_heaviest(nearest: Tensor, gaps: Tensor, centers: int) -> int:
    weights = gaps.new_zeros(centers).index_add_(0, nearest, gaps.clamp(min=0))
    heaviest = weights.argmax()
    if weights[heaviest] == 0:  # what is left equals a center: any of it will do
        return int(gaps.argmax())
    return int(torch.where(nearest == heaviest, gaps, PICKED).argmax())


def _nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row and the squared distance to it, (n,) both."""
    nearest = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    gaps = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    for part in blocks(len(rows), per_row=max(centers.shape), of=rows):
        block = rows[part].to(torch.float64)
        nearest[part] = squared_distances(block, centers)[0].argmin(1)
        gaps[part] = squared_differences(block, centers[nearest[part]])  # exactly 0 for equal rows
    return nearest, gaps


def _distances(rows: Tensor, position: int) -> Tensor:
    """Squared distances of all rows to one of them, (n,)."""
    center = rows[position : position + 1].to(torch.float64)
    apart = lambda block: squared_differences(block.to(torch.float64), center)  # noqa: E731
    return in_blocks(rows, apart, rows.shape[1], torch.float64)


lcmd = LCMD()
