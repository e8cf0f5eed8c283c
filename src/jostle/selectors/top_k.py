"""The largest scores, and the longest rows."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows, blocks, squared_lengths, width
from jostle.selectors.base import Picks, Selector, check_pickable, checked_rows


@dataclass(frozen=True)
class TopK(Selector):
    """Takes the largest scores, (n,) or (n, 1); the seed decides ties. Centers play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n largest; equal seeds give equal picks."""
        scores = _scores(rows)
        check_pickable(n, len(scores))
        missing = scores.isnan()
        if missing.any():
            first = ", ".join(map(str, missing.nonzero()[:5, 0].tolist()))
            raise ValueError(
                f"{int(missing.sum())} of {len(scores)} scores are NaN (first at positions {first})"
            )
        return _largest(scores, n, seed)


@dataclass(frozen=True)
class Longest(Selector):
    """Takes the longest rows; a pick's score is its length. The seed decides ties; centers play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n longest; equal seeds give equal picks."""
        rows, _ = checked_rows(rows, n)
        parts = (rows[part].to(torch.float64) for part in blocks(len(rows), per_row=width(rows)))
        squared = torch.cat([squared_lengths(part) for part in parts])
        return _largest(squared.sqrt(), n, seed)

    def reach(self, rows: Rows, n: int) -> float | None:
        """The n-th longest row's length."""
        return float(self.pick(rows, n).scores[-1])


def _scores(rows: Rows) -> Tensor:
    if isinstance(rows, np.ndarray):
        rows = torch.as_tensor(rows)
    if not isinstance(rows, Tensor):
        raise TypeError(f"scores must be a tensor (n,) or (n, 1), got {type(rows).__name__}")
    if rows.ndim not in (1, 2) or rows.shape[1:] not in ((), (1,)):
        raise ValueError(
            f"scores must be one number for each example, (n,) or (n, 1), got {tuple(rows.shape)}"
        )
    return rows.detach().flatten()


def _largest(scores: Tensor, n: int, seed: int | None) -> Picks:
    order = largest_first(scores, fresh_seed() if seed is None else seed)[:n]
    return Picks(order, scores[order].to(torch.float64))


def largest_first(scores: Tensor, seed: int) -> Tensor:
    """All positions, (n,), from the largest score to the smallest; ties are drawn, since a pool may be sorted."""
    order = order_of_ties(scores, seed)
    return order[scores[order].sort(descending=True, stable=True).indices]


def order_of_ties(scores: Tensor, seed: int) -> Tensor:
    """All positions, (n,), in a drawn order: of equal scores the first in it comes first."""
    draws = generator(seed, "ties")
    return torch.randperm(len(scores), generator=draws, device=draws.device).to(scores.device)


top_k = TopK()
longest = Longest()
