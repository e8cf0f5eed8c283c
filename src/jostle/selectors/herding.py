"""Herding: each pick brings most of what is worth covering nearer to something labelled or picked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.plumbing.names import look_up
from jostle.plumbing.progress import note
from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import (
    Rows,
    blocks,
    squared_differences,
    squared_distances,
    squared_lengths,
    unit_length,
)
from jostle.selectors.base import WORD, Picks, Weighing, checked_weights, dense_rows

LEAST = 2048  # rows that compete, at least
LOOK = 64  # candidates whose gains are brought up to date together
COPIES = 32  # times what numbers near 1 round by: centers of unit length no farther apart are copies
KEPT = 2**24  # numbers of the kernel that are kept, at most; more are computed again when they are needed


def median_gap(centers: Tensor) -> float:
    """The median distance of a center to its nearest other one."""
    return float(other_distances(centers).median())


def smallest_gap(centers: Tensor) -> float:
    """The smallest distance between two centers that differ."""
    gaps = other_distances(centers)
    return float(gaps[gaps > 0].min()) if (gaps > 0).any() else 0.0


def other_distances(centers: Tensor) -> Tensor:
    """Distance of each center to its nearest other one, (m,); infinite for a single one, 0 for copies.

    What products of rows round to nothing, or to something, is measured; then rounding alone makes no difference.
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

    width: float | str = "median"
    """Of the kernel, in rows of unit length: "median" or "smallest" distance of a center to its nearest other one;
    1 where there are no two centers."""
    targets: int = 4096
    """Rows that stand for what is to be covered, at most."""
    candidates: int = 20
    """Rows that compete for each pick, at least 2048 in all."""

    def __post_init__(self) -> None:
        if isinstance(self.width, str):
            look_up("width", self.width, WIDTHS)
        elif not self.width > 0:
            raise ValueError(f"width is a distance above 0, or one of {', '.join(WIDTHS)}; got {self.width}")
        if self.targets < 1 or self.candidates < 1:
            raise ValueError(
                f"targets and candidates are at least 1; got {self.targets} and {self.candidates}"
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
        """Pick n rows; without weights all count alike, and ties go to the earlier row.

        The seed draws targets of large pools, those that compete among equally heavy rows, and what is left once
        nothing more can be gained.
        """
        rows, centers = dense_rows("herding", rows, n, centers)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))  # halves would round gains away
        centers = None if centers is None else centers.to(rows.dtype)
        weights = checked_weights(weights, rows)
        draws = generator(fresh_seed() if seed is None else seed, "herding")
        few, shares = _standing_for_all(weights, self.targets, draws)
        able = _heaviest(weights, max(self.candidates * n, LEAST), draws)
        known = None if centers is None else unit_length(centers)
        field = Field(unit_length(rows[few]), shares, self.sigma(known))
        if known is not None:
            field.cover(known)
        places, gains = _greedy(field, unit_length(rows[able]), n, draws)
        return Picks(able[places], gains)

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """The kernel of rows that stand for all and rows that compete, and a few of the latter again for each pick."""
        few, able = min(size, self.targets), min(size, max(self.candidates * n, LEAST))
        return few * (able + known + LOOK * n / 2)

    def room(self, size: int, width: int, n: int) -> int:
        """Rows that stand for all, rows that compete, and the kernel of some of these."""
        few, able = min(size, self.targets), min(size, max(self.candidates * n, LEAST))
        kernel = min(few * able, KEPT) + 2 * LOOK * few
        return WORD * (2 * (few + able) * width + kernel + 4 * size)

    def sigma(self, centers: Tensor | None) -> float:
        """The kernel's width as it is, or as the centers say."""
        if not isinstance(self.width, str):
            return self.width
        found = WIDTHS[self.width](centers) if centers is not None and len(centers) > 1 else 0.0
        return found or 1.0


class Field:
    """What is to be covered, and how well each of it is by now."""

    def __init__(self, points: Tensor, weights: Tensor, sigma: float) -> None:
        self.points, self.weights, self.sharpness = points, weights, sigma**-2
        self.lengths = squared_lengths(points)  # (t,): 1, and 0 of a zero row
        self.covered = torch.zeros_like(weights)  # (t,)

    def kernel(self, rows: Tensor) -> Tensor:
        """How near rows are to what is to be covered, (k, t)."""
        apart = torch.addmm(self.lengths, rows, self.points.T, alpha=-2).add_(squared_lengths(rows)[:, None])
        return apart.clamp_(min=0).mul_(-self.sharpness).exp_()

    def cover(self, rows: Tensor) -> None:
        """Take these rows for labelled."""
        for part in rows.split(LOOK):
            self.cover_near(self.kernel(part))

    def cover_near(self, nearness: Tensor) -> None:
        """Take rows for labelled whose nearness, (k, t), is known."""
        torch.maximum(self.covered, nearness.amax(0), out=self.covered)

    def gains(self, nearness: Tensor) -> Tensor:
        """What rows of such nearness, (k, t), would add, (k,)."""
        return (nearness - self.covered).clamp_(min=0) @ self.weights


class Competing:
    """The rows that may be picked; how near one is to what is to be covered is kept, since the best come up again."""

    def __init__(self, points: Tensor, field: Field) -> None:
        self.points, self.field = points, field
        self.kept = dict[int, Tensor]()  # place -> its row of the kernel, (t,)

    def nearness(self, places: Tensor) -> Tensor:
        """Rows of the kernel, (k, t)."""
        wanted = places.tolist()
        new = [place for place in wanted if place not in self.kept]
        if new:
            self.kept |= zip(new, self.field.kernel(self.points[new]), strict=True)
        rows = torch.stack([self.kept[place] for place in wanted])
        if len(self.kept) * len(self.field.points) > KEPT:
            self.kept.clear()
        return rows


def _greedy(field: Field, points: Tensor, n: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Lazily: a gain never grows, so a stale one is a bound, and only the largest are looked at again."""
    competing, everyone = Competing(points, field), torch.arange(len(points), device=points.device)
    bounds = torch.cat([field.gains(field.kernel(part)) for part in points.split(LOOK)])
    stale = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    places, gains = list[int](), list[float]()
    while len(places) < n:
        top = int(bounds.argmax())
        if stale[top]:
            again = torch.where(stale, bounds, -torch.inf).topk(min(LOOK, len(points))).indices
            again = again[stale[again]]
            bounds[again], stale[again] = field.gains(competing.nearness(again)), False
            continue
        if not bounds[top] > 0:  # in the pool's order, which may be sorted, the rest would be of one kind
            places += _drawn((bounds > -torch.inf).nonzero()[:, 0].tolist(), n - len(places), draws)
            break
        places.append(top)
        gains.append(float(bounds[top]))
        note(1)
        field.cover_near(competing.nearness(everyone[top : top + 1]))
        bounds[top] = -torch.inf
        stale = bounds > -torch.inf
    scores = torch.zeros(n, dtype=torch.float64, device=points.device)
    scores[: len(gains)] = torch.tensor(gains, dtype=torch.float64)
    return torch.tensor(places, device=points.device), scores


def _drawn(places: list[int], count: int, draws: torch.Generator) -> list[int]:
    """So many of the places, in a drawn order."""
    order = torch.randperm(len(places), generator=draws, device=draws.device)[:count]
    return [places[turn] for turn in order.tolist()]


def _heaviest(weights: Tensor, count: int, draws: torch.Generator) -> Tensor:
    """Positions of the largest weights, equal ones drawn, in their own order, (count,)."""
    if count >= len(weights):
        return torch.arange(len(weights), device=weights.device)
    order = torch.randperm(len(weights), generator=draws, device=draws.device).to(weights.device)
    return order[weights[order].topk(count).indices].sort().values


def _standing_for_all(weights: Tensor, count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Positions and weights of a few rows whose weighted sums are those of all rows on average."""
    if count >= len(weights):
        return torch.arange(len(weights), device=weights.device), weights
    uniform = torch.rand(len(weights), generator=draws, device=draws.device, dtype=torch.float64)
    priority = weights.double() / (1 - uniform).to(weights.device)  # 1 - u is never 0
    top = priority.topk(count + 1)
    few, threshold = top.indices[:count].sort().values, top.values[-1]
    return few, torch.maximum(weights[few].double(), threshold).to(weights.dtype)


max_herding = Herding()
narrow_herding = Herding(width="smallest")
