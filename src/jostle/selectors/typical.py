"""Typical points: from each cluster the row whose neighbours are nearest."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rng import fresh_seed
from jostle.rows.geometry import Rows, blocks, squared_distances
from jostle.selectors.base import WORD, Picks, Selector, block_room, dense_rows
from jostle.selectors.k_means import in_float64, k_means

ROUNDS = 2  # of k-means, times the fourth root of the rows
SOFTEN = 1e-5  # keeps the typicality of coinciding rows finite


@dataclass(frozen=True)
class Typical(Selector):
    """The most typical row of each k-means cluster in turn: clusters with the fewest centers first, then larger ones.

    A pick's score is its typicality, 1 / mean squared distance to its neighbours in the cluster. Small clusters
    hold outliers: they come only when the others are empty, and rows without any neighbour last.
    """

    tells = False  # k-means comes first

    clusters: int = 500
    """The most clusters; otherwise there is one for each center and each pick."""
    small: int = 5
    """Clusters of this size or less come last."""
    neighbours: int = 20
    """The most neighbours that typicality looks at; otherwise half of the cluster."""

    def __post_init__(self) -> None:
        if min(self.clusters, self.small, self.neighbours) < 1:
            raise ValueError(
                "clusters, small and neighbours are at least 1; "
                f"got {self.clusters}, {self.small} and {self.neighbours}"
            )

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed starts k-means."""
        rows, centers = dense_rows("Typical", rows, n, centers)
        below = () if centers is None else (centers.to(rows.dtype),)
        points = in_float64(rows, *below).to(rows.device)
        chosen = len(points) - len(rows)
        k = min(chosen + n, self.clusters, len(points))
        cells, _ = k_means(points, k, fresh_seed() if seed is None else seed)
        picks = list[tuple[int, float]]()
        for found in islice(self._turns(points, cells, len(rows), k), n):
            picks.append(found)
            note(1)
        positions, scores = zip(*picks, strict=True)
        values = torch.tensor(scores, dtype=torch.float64, device=rows.device)
        return Picks(torch.tensor(positions, device=rows.device), values)

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """Rounds of k-means, and distances within clusters."""
        k = min(n + known, self.clusters, size)
        return ROUNDS * size * math.sqrt(math.sqrt(size)) * k + size**2 / k  # more rows take more rounds

    def room(self, size: int, width: int, n: int) -> int:
        """Rows in float64, and once more for k-means."""
        return 2 * WORD * size * (width + 2) + block_room(size, width)

    def _turns(self, points: Tensor, cells: Tensor, n: int, k: int) -> Iterator[tuple[int, float]]:
        """All rows: those of large clusters in turn, then of small ones, then rows that are clusters of their own."""
        sizes, chosen = cells.bincount(minlength=k).tolist(), cells[n:].bincount(minlength=k).tolist()
        members = {cell: (cells[:n] == cell).nonzero()[:, 0] for cell in range(k)}
        order = sorted(
            (cell for cell in range(k) if len(members[cell])), key=lambda c: (chosen[c], -sizes[c])
        )
        yield from self._in_turn(points, [members[cell] for cell in order if sizes[cell] > self.small])
        yield from self._in_turn(points, [members[cell] for cell in order if 1 < sizes[cell] <= self.small])
        typicality = self.typicality(points[:n])  # those alone have no neighbours in their cell
        alone = [int(members[cell]) for cell in order if sizes[cell] == 1]
        for position in sorted(alone, key=lambda position: -float(typicality[position])):
            yield position, float(typicality[position])

    def _in_turn(self, points: Tensor, clusters: list[Tensor]) -> Iterator[tuple[int, float]]:
        """The most typical row of each cluster, over and over until all are empty."""
        while clusters:
            rest = []
            for members in clusters:
                scores = self.typicality(points[members])
                best = int(scores.argmax())
                yield int(members[best]), float(scores[best])
                if len(members) > 1:
                    rest.append(torch.cat([members[:best], members[best + 1 :]]))
            clusters = rest

    def typicality(self, rows: Tensor) -> Tensor:
        """1 / mean squared distance to the nearest of the rows, (n,); 0 for a row alone."""
        if len(rows) == 1:
            return rows.new_zeros(1)
        near = min(self.neighbours, len(rows) // 2)
        means = rows.new_empty(len(rows))
        for part in blocks(len(rows), per_row=max(rows.shape)):
            distances = squared_distances(rows[part], rows)[0].clamp_(min=0)
            distances.diagonal(part.start).fill_(torch.inf)  # a row is no neighbour of itself
            means[part] = distances.topk(near, largest=False).values.mean(1)
        return 1 / (means + SOFTEN)


typical = Typical()
