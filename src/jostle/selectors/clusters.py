"""Selectors by clusters: typical rows, weighted k-means, and largest cluster, maximum distance (LCMD)."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor

from jostle.rng import derive
from jostle.rows.geometry import (
    Rows,
    blocks,
    in_blocks,
    is_mapped,
    release,
    rounding,
    rows_at,
    spilled_rows,
    squared_differences,
    squared_distances,
    squared_lengths,
    unit_length,
)
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    Weighing,
    block_room,
    break_ties,
    checked_weights,
    dense_rows,
    first_copies,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.shards import PICKED
from jostle.utils.progress import note

SOFTEN = 1e-5  # keeps the typicality of copies finite


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


@dataclass(frozen=True)
class Typical(Selector):
    """The most typical row of each k-means cluster in turn: clusters with the fewest centers first, then larger ones.

    A pick's score is its typicality, 1 / mean squared distance to its neighbors in the cluster. Small clusters
    hold outliers: they come only when the others are empty, and rows without any neighbor last.
    """

    ranges: ClassVar = {"clusters": "[1, inf)", "small": "[1, inf)", "neighbors": "[1, inf)"}
    clusters: int = 500
    """The most clusters; there is one for each center and each pick, up to this."""
    small: int = 5
    """Clusters of this size or less come last."""
    neighbors: int = 20
    """The most neighbors that typicality takes into account; half of the cluster, up to this."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed starts k-means and draws exact ties of rows and of clusters."""
        rows, centers = dense_rows("Typical", rows, n, centers)
        seed = seed_or_fresh(seed)
        below = () if centers is None else (centers.to(rows.dtype),)
        points = in_float64(rows, *below).to(rows.device)
        chosen = len(points) - len(rows)
        k = min(chosen + n, self.clusters, len(points))
        cells, _ = k_means(points, k, seed)
        turns = Turns(self, points, first_copies(points), seed)
        picks = list[tuple[int, float]]()
        for found in islice(turns.all_rows(cells, len(rows), k), n):
            picks.append(found)
            note(1)
        positions, scores = zip(*picks, strict=True)
        return Picks.of(positions, scores, rows.device)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of rows in float64, and once more for k-means."""
        return 2 * WORD * size * (width + 2) + block_room(size, width)

    def typicality(self, rows: Tensor) -> Tensor:
        """Return 1 / mean squared distance to the nearest of the other rows, (n,); 0 for a single row."""
        if len(rows) == 1:
            return rows.new_zeros(1)
        near = min(self.neighbors, len(rows) // 2)
        means = rows.new_empty(len(rows))
        for part in blocks(len(rows), per_row=max(rows.shape)):
            distances = squared_distances(rows[part], rows)[0].clamp_(min=0)
            distances.diagonal(part.start).fill_(torch.inf)  # a row is no neighbor of itself
            means[part] = distances.topk(near, largest=False).values.mean(1)
        return 1 / (means + SOFTEN)


@dataclass(frozen=True)
class Turns:
    """The order in which clusters give rows."""

    selector: Typical
    points: Tensor  # (n + m, d) float64, rows and then centers
    copies: Tensor | None  # (n + m,), the first copy of each point
    seed: int

    def all_rows(self, cells: Tensor, n: int, k: int) -> Iterator[tuple[int, float]]:
        """Yield all rows with their typicality: large clusters in turn, then small ones, then single rows.

        Args:
            cells: The cluster of each point, (n + m,).
            n: Number of rows.
            k: Number of clusters.
        """
        small = self.selector.small
        sizes, chosen = cells.bincount(minlength=k).tolist(), cells[n:].bincount(minlength=k).tolist()
        members = {cell: (cells[:n] == cell).nonzero()[:, 0] for cell in range(k)}
        keys = tie_keys(derive(self.seed, "clusters"), torch.arange(k)).tolist()
        order = sorted(
            (cell for cell in range(k) if len(members[cell])), key=lambda c: (chosen[c], -sizes[c], keys[c])
        )
        yield from self._in_turn([members[cell] for cell in order if sizes[cell] > small])
        yield from self._in_turn([members[cell] for cell in order if 1 < sizes[cell] <= small])
        typicality = self.selector.typicality(
            self.points[:n]
        )  # single rows have no neighbors in their cluster
        singles = torch.tensor([int(members[cell]) for cell in order if sizes[cell] == 1], dtype=torch.int64)
        ties = tie_keys(self.seed, singles).tolist()
        for _, _, position in sorted(
            zip((-typicality[singles]).tolist(), ties, singles.tolist(), strict=True)
        ):
            yield position, float(typicality[position])

    def _in_turn(self, clusters: list[Tensor]) -> Iterator[tuple[int, float]]:
        """Yield the most typical row of each cluster, over and over until all are empty."""
        while clusters:
            rest = []
            for members in clusters:
                scores = self._equal_for_copies(self.selector.typicality(self.points[members]), members)
                best = break_ties(scores, tie_keys(self.seed, members))
                yield int(members[best]), float(scores[best])
                if len(members) > 1:
                    rest.append(torch.cat([members[:best], members[best + 1 :]]))
            clusters = rest

    def _equal_for_copies(self, scores: Tensor, members: Tensor) -> Tensor:
        """Return scores in which copies have the score of the first of them."""
        if self.copies is None:
            return scores
        _, group = self.copies[members].unique(return_inverse=True)
        first = torch.full_like(group, len(group)).scatter_reduce_(
            0, group, torch.arange(len(group), device=group.device), "amin"
        )
        return scores[first[group]]


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


def in_float64(rows: Tensor, *more: Tensor) -> Tensor:
    """Return a float64 copy of rows on the CPU, with more below them, (n, d); in a file where the rows are in one."""
    below = [part.detach().to("cpu", torch.float64) for part in more]
    if not is_mapped(rows):
        return torch.cat([rows.detach().to("cpu", torch.float64), *below])
    wide = spilled_rows((len(rows) + sum(map(len, more)), rows.shape[1]), torch.float64)
    for part in blocks(len(rows), per_row=rows.shape[1], of=rows):
        wide[part] = rows[part]
        release(wide)
    if below:
        wide[len(rows) :] = torch.cat(below)
    return wide


def unit_in_float64(rows: Tensor) -> Tensor:
    """Return rows at unit length in float64, (n, d), a block at a time; in a file where the rows are in one."""
    if is_mapped(rows):
        unit = spilled_rows(tuple(rows.shape), torch.float64)
    else:
        unit = torch.empty(rows.shape, dtype=torch.float64, device=rows.device)
    for part in blocks(len(rows), per_row=rows.shape[1], of=rows):
        unit[part] = unit_length(rows[part].to(torch.float64))
    return unit


def k_means(rows: Tensor, k: int, seed: int, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the cell of each row (n,) and the centers of cells (k, d); copies of rows may leave cells empty."""
    from sklearn.cluster import KMeans  # here, since loading it takes longer than most calls
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than cells
        fitted = KMeans(k, n_init=1, random_state=derive(seed, "k-means") % 2**32, copy_x=False).fit(
            in_float64(rows).numpy(),
            sample_weight=None if weights is None else weights.detach().cpu().double().numpy(),
        )
    cells = torch.as_tensor(fitted.labels_, dtype=torch.int64, device=rows.device)
    return cells, torch.as_tensor(fitted.cluster_centers_, device=rows.device)


typical = Typical()
weighted_k_means = WeightedKMeans()
