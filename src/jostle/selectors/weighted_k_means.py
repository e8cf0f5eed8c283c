"""Weighted k-means: heavy rows pull centers, and the row nearest to each center is picked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rows.geometry import Rows
from jostle.selectors.base import (
    WORD,
    Picks,
    Weighing,
    break_ties,
    checked_weights,
    dense_rows,
    first_copies,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.typical import k_means
from jostle.utils.progress import note


@dataclass(frozen=True)
class WeightedKMeans(Weighing):
    """Clusters rows into n cells by weighted k-means; each center takes the nearest row that is not yet picked.

    Heavy cells come first; a pick's score is the weight of its cell. Centers that are given do not matter.
    """

    uses_centers = False

    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n rows; without weights, or where all are 0, all count the same."""
        rows, _ = dense_rows("weighted k-means", rows, n)
        weights = checked_weights(weights, rows).double()
        weights = weights if weights.any() else torch.ones_like(weights)
        seed = seed_or_fresh(seed)
        cells, found = k_means(rows, n, seed, weights)
        total = weights.new_zeros(n).index_add_(0, cells, weights)  # (n,): the weight of each cell
        keys, points = tie_keys(seed, torch.arange(len(rows), device=rows.device)), rows.double()
        copies = first_copies(points)
        points = points if copies is None else points[copies]
        positions = list[int]()
        order = total.sort(descending=True, stable=True).indices
        for cell in order.tolist():
            gaps = -(points - found[cell].to(points)).square().sum(1)
            gaps[positions] = -torch.inf
            positions.append(break_ties(gaps, keys))
            note(1)
        return Picks(torch.tensor(positions, device=rows.device), total[order])

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of rows in float64 for k-means, centers and distances."""
        return WORD * (4 * size * width + 2 * n * width + 6 * size)


weighted_k_means = WeightedKMeans()
