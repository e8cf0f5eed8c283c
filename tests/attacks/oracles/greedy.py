"""Selectors by brute force: each pick is the best of all that were left, and has the value that it is said to have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attacks.driver import check

Value = Callable[[list[int]], Tensor]  # picks so far -> the value of every row, (n,)


def stepwise(positions: Sequence[int], scores: Any, value: Value, slack: float = 0.0, start: int = 0) -> None:
    """Check picks one after another, from the pick number `start` on, within rounding and a `slack`."""
    for turn, pick in enumerate(positions):
        values = value(list(positions[:turn])).clone()
        values[list(positions[:turn])] = -torch.inf
        best, own = float(values.max()), float(values[pick])
        if turn < start:
            continue
        tolerance = 1e-6 * abs(best) + 1e-10 + slack
        check(own >= best - tolerance, f"pick {turn} has {own}, where {best} was to be had")
        given = float(scores[turn])
        check(abs(given - own) <= tolerance, f"pick {turn} is said to have {given}, and has {own}")


def ranking(query: Any, scores: Tensor) -> None:
    """Check that picks are the largest scores, in their order."""
    stepwise(list(query), query.scores, lambda picks: scores)


def valued(query: Any, values: Tensor, tolerance: float = 1e-9) -> None:
    """Check that every pick is said to have the value that it has."""
    for pick, score in zip(query, query.scores, strict=True):
        own = float(values[pick])
        check(abs(score - own) <= tolerance, f"{pick} is said to have {score}, and has {own}")


def gaps(rows: Tensor, centers: Tensor) -> Tensor:
    """The distance of each row to its nearest center, (n,)."""
    return (rows[:, None] - centers[None]).square().sum(2).sqrt().amin(1)


def k_center(query: Any, rows: Tensor, centers: Tensor | None, slack: float = 0.0, start: int = 0) -> None:
    """Check greedy k-center from centers, or from the origin."""
    first = rows.new_zeros(1, rows.shape[1]) if centers is None else centers
    positions = list(query)
    stepwise(positions, query.scores, lambda picks: gaps(rows, torch.cat([first, rows[picks]])), slack, start)


def unit(rows: Tensor) -> Tensor:
    """Rows of length 1; zeros stay."""
    scaled = rows / rows.abs().amax(1, keepdim=True).clamp(min=1e-300)  # squares of tiny numbers would vanish
    return scaled / scaled.norm(dim=1, keepdim=True).clamp(min=1e-300)


def herding(
    query: Any,
    rows: Tensor,
    weights: Tensor,
    centers: Tensor | None,
    width: str,
    places: Tensor | None = None,
    able: Tensor | None = None,
) -> None:
    """Check greedy kernel coverage among the rows at these places of the pool, or by those that are able."""
    x = unit(rows)
    c = None if centers is None else unit(centers)
    sigma = 1.0
    if c is not None and len(c) > 1:
        apart = (c[:, None] - c[None]).norm(dim=2)
        nearest = apart.fill_diagonal_(torch.inf).amin(1).sort().values
        nearest = nearest[nearest > 1e-14] if width == "smallest" else nearest
        if len(nearest):
            sigma = float(nearest[0] if width == "smallest" else nearest[(len(nearest) - 1) // 2]) or 1.0

    def kernel(points: Tensor) -> Tensor:
        return (-((points[:, None] - x[None]).square().sum(2)) / sigma**2).exp()  # (k, n)

    def gain(picks: list[int]) -> Tensor:
        near = torch.cat([x.new_zeros(1, len(x)), *([] if c is None else [kernel(c)]), kernel(x[picks])])
        covered = near.amax(0)
        gains = ((kernel(x) - covered).clamp(min=0) * weights).sum(1)
        return gains if able is None else torch.where(able, gains, -torch.inf)

    at = list(range(len(rows))) if places is None else places.tolist()
    stepwise([at.index(pick) for pick in query], query.scores, gain)


def explained_variance(
    query: Any, rows: Tensor, weights: Tensor, centers: Tensor | None, noise: float, places: Tensor
) -> None:
    """Check greedy explained variance: the covariance given labeled rows and picks is solved anew at every step."""
    x = unit(rows)
    c = x.new_zeros(0, x.shape[1]) if centers is None else unit(centers)

    def gain(picks: list[int]) -> Tensor:
        seen = torch.cat([c, x[picks]])
        gram = seen @ seen.T + noise * torch.eye(len(seen), dtype=x.dtype)
        left = x @ x.T - x @ seen.T @ torch.linalg.solve(gram, seen @ x.T)
        return (left.square() * weights).sum(1) / (left.diagonal() + noise)

    at = places.tolist()
    stepwise([at.index(pick) for pick in query], query.scores, gain)


def lcmd(query: Any, rows: Tensor, centers: Tensor, slack: float) -> None:
    """Check that each pick is the farthest of the heaviest cluster around centers and picks."""
    positions = list(query)

    def value(picks: list[int]) -> Tensor:
        apart = (rows[:, None] - torch.cat([centers, rows[picks]])[None]).square().sum(2)
        squared, cluster = apart.min(1)
        squared[picks] = 0
        weights = torch.zeros(apart.shape[1], dtype=rows.dtype).index_add_(0, cluster, squared)
        heavy = weights[cluster] >= weights.max() * (1 - 1e-6)
        return torch.where(heavy, squared.sqrt(), -torch.inf)

    stepwise(positions, query.scores, value, slack)


def cover(query: Any, rows: Tensor, centers: Tensor, radius: float) -> None:
    """Check greedy maximum coverage by balls; once all is covered, picks are worth 0."""
    near = (rows[:, None] - rows[None]).norm(dim=2) < radius
    by_centers = ((rows[:, None] - centers[None]).norm(dim=2) < radius).any(1)

    def value(picks: list[int]) -> Tensor:
        covered = by_centers | near[picks].any(0)
        return (near & ~covered).sum(1).double()

    stepwise(list(query), query.scores, value)
