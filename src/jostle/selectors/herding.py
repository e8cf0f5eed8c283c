"""Herding: each pick brings most of what is worth covering nearer to something labeled or picked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import (
    Rows,
    blocks,
    rounding,
    squared_differences,
    squared_distances,
    squared_lengths,
    unit_length,
)
from jostle.selectors.base import (
    WORD,
    Picks,
    Weighing,
    break_ties,
    check_pickable,
    checked_weights,
    dense_rows,
    drawn_rest,
    first_copies,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.shards import LocalShards, Shards
from jostle.utils.names import look_up
from jostle.utils.progress import note

LOOK = 64  # candidates whose gains are updated together
COPIES = 32  # times the rounding of numbers near 1: centers of unit length no farther apart are copies
MAX_KEPT = 2**24  # numbers of the kernel that are kept; more are computed again when they are needed
MAX_KERNEL_ERROR = 0.01  # of a kernel value by rounding; a narrower kernel is computed in float64


def median_gap(centers: Tensor) -> float:
    """Return the median distance of a center to its nearest other one."""
    return float(other_distances(centers).median())


def smallest_gap(centers: Tensor) -> float:
    """Return the smallest distance between two centers that differ."""
    gaps = other_distances(centers)
    return float(gaps[gaps > 0].min()) if (gaps > 0).any() else 0.0


def other_distances(centers: Tensor) -> Tensor:
    """Return the distance of each center to its nearest other one, (m,); infinite for a single one, 0 for copies.

    Distances that rounding of products may decide are measured by exact differences.
    """
    nearest = []
    for part in blocks(len(centers), per_row=len(centers)):
        distances, slack = squared_distances(centers[part], centers)
        distances.diagonal(part.start).fill_(torch.inf)
        found, other = distances.clamp_(min=0).min(1)
        close = (found <= slack).nonzero()[:, 0]
        apart = squared_differences(centers[part][close].double(), centers[other[close]].double())
        found[close] = torch.where(apart.sqrt() > COPIES * torch.finfo(found.dtype).eps, apart, 0).to(found)
        nearest.append(found.sqrt_())
    return torch.cat(nearest)


WIDTHS: dict[str, Callable[[Tensor], float]] = {"median": median_gap, "smallest": smallest_gap}


@dataclass(frozen=True)
class Herding(Weighing):
    """Greedy coverage: the gain of row i is sum_j w_j [k(i, j) - the largest k(c, j) of centers and picks]_+.

    k = exp(-(distance / width)^2) between rows of unit length; a pick's score is its gain. Up to `targets` rows and
    `candidates` for each pick the greedy picks are exact. Of more rows, `targets` stand for all of them, drawn by their
    weights such that every gain is right on average (priority sampling), and the heaviest compete.
    """

    ranges: ClassVar = {"targets": "[1, inf)", "candidates": "[1, inf)", "min_candidates": "[1, inf)"}
    width: float | str = "median"
    """Width of the kernel between rows of unit length: a number, or the "median" or "smallest" distance of a center to
    its nearest other one; 1 where there are no two centers."""
    targets: int = 4096
    """The most rows that stand for all that is to be covered."""
    candidates: int = 20
    """Rows that compete for each pick: the heaviest."""
    min_candidates: int = 2048
    """Rows that compete at least."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.width, str):
            look_up("width", self.width, WIDTHS)
        elif not self.width > 0:
            raise ValueError(
                f"width must be a distance above 0, or one of {', '.join(WIDTHS)}; got {self.width}"
            )

    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n rows; without weights all count the same.

        The seed draws exact ties, targets of large pools, candidates among equally heavy rows, and the rest once
        nothing more can be gained.
        """
        rows, centers = dense_rows("herding", rows, n, centers)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))  # halves would round gains away
        weights = checked_weights(weights, rows)
        return self.pick_over(LocalShards.of_rows(rows, weights), n, centers=centers, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows from shards; only targets and candidates leave them."""
        check_pickable(n, len(shards))
        like, centers = dense_rows("herding", shards.collect(torch.tensor([0])), 1, centers)
        like = like.to(torch.promote_types(like.dtype, torch.float32))
        found = shards.collect_weights()
        weights = like.new_ones(len(shards)) if found is None else found.to(like)
        seed = seed_or_fresh(seed)
        draws = generator(seed, "herding")
        few, shares = sample_targets(weights, self.targets, draws)
        able = heaviest(weights, max(self.candidates * n, self.min_candidates), draws)
        centers = None if centers is None else centers.to(like)
        sigma = self.sigma(None if centers is None else unit_length(centers))
        dtype = like.dtype if 2 * rounding(like) <= MAX_KERNEL_ERROR * sigma**2 else torch.float64
        targets, points = (unit_length(shards.collect(places).to(dtype)) for places in (few, able))
        assert isinstance(targets, Tensor)
        assert isinstance(points, Tensor)
        field = Field(targets, shares.to(dtype), sigma)
        if centers is not None:
            field.cover(unit_length(centers.to(dtype)))
        places, gains = pick_greedily(field, points, tie_keys(seed, able), n, draws)
        return Picks(able[places], gains)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of targets, of candidates, and of the kernel of some of these."""
        few, able = min(size, self.targets), min(size, max(self.candidates * n, self.min_candidates))
        kernel = min(few * able, MAX_KEPT) + 2 * LOOK * few
        return WORD * (2 * (few + able) * width + kernel + 4 * size)

    def sigma(self, centers: Tensor | None) -> float:
        """Return the width of the kernel: as set, or by the centers."""
        if not isinstance(self.width, str):
            return self.width
        found = WIDTHS[self.width](centers) if centers is not None and len(centers) > 1 else 0.0
        return found or 1.0


class Field:
    """Targets that are to be covered, and how well each of them is by now."""

    def __init__(self, points: Tensor, weights: Tensor, sigma: float) -> None:
        self.points, self.weights, self.sharpness = points, weights, sigma**-2
        self.lengths = squared_lengths(points)  # (t,): 1, and 0 of a zero row
        self.covered = torch.zeros_like(weights)  # (t,)

    def kernel(self, rows: Tensor) -> Tensor:
        """Return the kernel of rows and targets, (k, t)."""
        apart = torch.addmm(self.lengths, rows, self.points.T, alpha=-2).add_(squared_lengths(rows)[:, None])
        return apart.clamp_(min=0).mul_(-self.sharpness).exp_()

    def cover(self, rows: Tensor) -> None:
        """Take these rows as labeled."""
        for part in rows.split(LOOK):
            self.cover_near(self.kernel(part))

    def cover_near(self, nearness: Tensor) -> None:
        """Take rows as labeled whose kernel, (k, t), is known."""
        torch.maximum(self.covered, nearness.amax(0), out=self.covered)

    def gains(self, nearness: Tensor) -> Tensor:
        """Return what rows of this kernel, (k, t), would add, (k,)."""
        return (nearness - self.covered).clamp_(min=0) @ self.weights


class Competing:
    """Rows that may be picked; their kernel is kept, since the best come up again."""

    def __init__(self, points: Tensor, field: Field) -> None:
        self.points, self.field = points, field
        self.kept = dict[int, Tensor]()  # place -> its row of the kernel, (t,)

    def nearness(self, places: Tensor) -> Tensor:
        """Return rows of the kernel, (k, t)."""
        wanted = places.tolist()
        new = [place for place in wanted if place not in self.kept]
        if new:
            self.kept |= zip(new, self.field.kernel(self.points[new]), strict=True)
        rows = torch.stack([self.kept[place] for place in wanted])
        if len(self.kept) * len(self.field.points) > MAX_KEPT:
            self.kept.clear()
        return rows


def pick_greedily(
    field: Field, points: Tensor, keys: Tensor, n: int, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pick n points, lazily: a gain never grows, so an old one is a bound, and only the largest are updated.

    Copies of a point have one gain; once one of them is picked, the others add nothing.
    """
    copies = first_copies(points)
    competing, everyone = Competing(points, field), torch.arange(len(points), device=points.device)
    bounds = torch.cat([field.gains(field.kernel(part)) for part in points.split(LOOK)])
    first = everyone if copies is None else copies
    bounds = bounds[first]
    bounds = torch.where(first == everyone, bounds, -torch.inf)  # copies wait until their first is picked
    stale = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    smallest = (
        keys if copies is None else torch.full_like(keys, 2**63 - 1).scatter_reduce_(0, first, keys, "amin")
    )
    places, gains = list[int](), list[float]()
    while len(places) < n:
        top = break_ties(bounds, smallest)
        if stale[bounds == bounds[top]].any():
            again = torch.where(stale, bounds, -torch.inf).topk(min(LOOK, len(points))).indices
            again = again[stale[again]]
            bounds[again], stale[again] = field.gains(competing.nearness(again)), False
            continue
        if not bounds[top] > 0:  # by position the rest would be of one kind if the pool is sorted
            places += drawn_rest(places, n - len(places), len(points), draws)
            break
        places.append(int((keys == smallest[top]).nonzero()))
        gains.append(float(bounds[top]))
        note(1)
        field.cover_near(competing.nearness(everyone[top : top + 1]))
        bounds[top] = -torch.inf
        stale = bounds > -torch.inf
    scores = torch.zeros(n, dtype=torch.float64, device=points.device)
    scores[: len(gains)] = torch.tensor(gains, dtype=torch.float64)
    return torch.tensor(places, device=points.device), scores


def heaviest(weights: Tensor, count: int, draws: torch.Generator) -> Tensor:
    """Return the positions of the largest weights, equal ones drawn, in ascending order, (count,)."""
    if count >= len(weights):
        return torch.arange(len(weights), device=weights.device)
    order = torch.randperm(len(weights), generator=draws, device=draws.device).to(weights.device)
    return order[weights[order].topk(count).indices].sort().values


def sample_targets(weights: Tensor, count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return positions and weights of a few rows whose weighted sums are those of all rows on average."""
    if count >= len(weights):
        return torch.arange(len(weights), device=weights.device), weights
    uniform = torch.rand(len(weights), generator=draws, device=draws.device, dtype=torch.float64)
    priority = weights.double() / (1 - uniform).to(weights.device)  # 1 - u is never 0
    top = priority.topk(count + 1)
    few, threshold = top.indices[:count].sort().values, top.values[-1]
    return few, torch.maximum(weights[few].double(), threshold).to(weights.dtype)


max_herding = Herding()
narrow_herding = Herding(width="smallest")
