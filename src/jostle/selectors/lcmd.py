"""Largest cluster, maximum distance: the farthest row of the cluster that is worst represented."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rng import derive
from jostle.rows.geometry import (
    Rows,
    blocks,
    in_blocks,
    rounding,
    rows_at,
    squared_differences,
    squared_distances,
    squared_lengths,
)
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    block_room,
    break_ties,
    dense_rows,
    first_copies,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.shards import PICKED
from jostle.utils.progress import note


@dataclass(frozen=True)
class LCMD(Selector):
    """Rows cluster around their nearest center; each pick is the farthest row of the heaviest cluster.

    A cluster weighs the sum of its squared distances, and a pick becomes a center; its score is its distance.
    Without centers all rows start around the origin, so the first pick is the longest row.
    """

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed draws exact ties of rows and of clusters."""
        rows, centers = dense_rows("LCMD", rows, n, centers)
        seed = seed_or_fresh(seed)
        centers = torch.zeros_like(rows[:1]) if centers is None else centers
        nearest, distances = nearest_centers(rows, centers.to(torch.float64))
        keys = tie_keys(seed, torch.arange(len(rows), device=rows.device))
        cluster_keys = tie_keys(derive(seed, "clusters"), torch.arange(len(centers) + n, device=rows.device))
        lengths = in_blocks(
            rows, lambda part: squared_lengths(bound_dtype(part)), rows.shape[1], torch.float64
        )
        positions, scores = list[int](), list[float]()
        for turn in range(n):
            clusters = len(centers) + turn
            winner = farthest_of_heaviest(nearest, distances, keys, cluster_keys[:clusters])
            positions.append(winner)
            scores.append(float(distances[winner]))
            closer, measured = closer_rows(rows, lengths, winner, distances)
            nearest[closer], distances[closer] = clusters, measured
            distances[winner] = PICKED
            note(1)
        return Picks.of(positions, list(map(math.sqrt, scores)), rows.device)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of each row's nearest center, distance, length and tie key."""
        return 9 * WORD * size + block_room(size, width)


def farthest_of_heaviest(nearest: Tensor, distances: Tensor, keys: Tensor, cluster_keys: Tensor) -> int:
    """Return the farthest row of the heaviest cluster; any row, if all that are left equal a center."""
    weights = distances.new_zeros(len(cluster_keys)).index_add_(0, nearest, distances.clamp(min=0))
    heaviest = break_ties(weights, cluster_keys)
    if weights[heaviest] == 0:
        return break_ties(distances, keys)
    return break_ties(torch.where(nearest == heaviest, distances, PICKED), keys)


def nearest_centers(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row and the squared distance to it, (n,) both.

    Products of rows tell which centers may be the nearest; these are compared by exact differences. Of centers at the
    same distance, copies above all, the first counts.
    """
    firsts = first_copies(centers)
    distinct = torch.arange(len(centers), device=rows.device) if firsts is None else firsts.unique()
    centers = centers[distinct]
    nearest = torch.full((len(rows),), len(centers), device=rows.device)
    distances = torch.full((len(rows),), torch.inf, dtype=torch.float64, device=rows.device)
    for part in blocks(len(rows), per_row=max(centers.shape), of=rows):
        block = rows[part].to(torch.float64)
        estimates, slack = squared_distances(block, centers)
        near = (estimates <= (estimates.amin(1) + 2 * slack)[:, None]).nonzero()  # (pairs, 2)
        for pairs in near.split(max(1, (1 << 20) // rows.shape[1])):
            row, center = pairs.T
            apart = squared_differences(block[row], centers[center])
            row = row + part.start
            before = distances[row]
            distances.scatter_reduce_(0, row, apart, "amin")
            nearest[row[distances[row] < before]] = len(centers)
            best = apart == distances[row]
            nearest.scatter_reduce_(0, row[best], center[best], "amin")
    return distinct[nearest], distances


def bound_dtype(rows: Tensor) -> Tensor:
    """Return rows in the dtype in which distances are estimated: their own, at least float32."""
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


def closer_rows(rows: Tensor, lengths: Tensor, position: int, distances: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that are closer to one of them than their distances say, and how close, (k,) both.

    Estimates by products leave out most rows; the others are measured by exact differences.
    """
    center = bound_dtype(rows[position : position + 1])
    own = float(lengths[position])
    maybe = torch.empty(len(rows), dtype=torch.bool, device=rows.device)
    shrink, tiny = 1 - rounding(center), rows.shape[1] * torch.finfo(center.dtype).tiny
    for part in blocks(len(rows), per_row=rows.shape[1], of=rows):
        low = (lengths[part] * shrink).sub_(bound_dtype(rows[part]) @ center[0], alpha=2)
        maybe[part] = ~(low >= distances[part] + (tiny - own * shrink))  # also where squares overflow to NaN
    positions = maybe.nonzero()[:, 0]
    exact = distances.new_empty(len(positions))
    for part in blocks(len(positions), per_row=rows.shape[1]):
        few = rows_at(rows, positions[part]).to(torch.float64)
        exact[part] = squared_differences(few, center.to(torch.float64).expand(len(few), -1))
    closer = exact < distances[positions]
    return positions[closer], exact[closer]


lcmd = LCMD()
