"""The largest scores, and the longest rows."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jostle.rows.geometry import Rows, blocks, squared_lengths, width
from jostle.selectors.base import Picks, Selector, check_count, checked


@dataclass(frozen=True)
class TopK(Selector):
    """Takes the largest scores, (n,) or (n, 1); ties go to the earlier one. Centers and seed play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n largest."""
        scores = _scores(rows)
        check_count(n, len(scores))
        missing = scores.isnan()
        if missing.any():
            first = ", ".join(map(str, missing.nonzero()[:5, 0].tolist()))
            raise ValueError(
                f"{int(missing.sum())} of {len(scores)} scores are NaN (first at positions {first})"
            )
        return _largest(scores, n)


@dataclass(frozen=True)
class Longest(Selector):
    """Takes the longest rows; a pick's score is its length. Centers and seed play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n longest."""
        rows, _ = checked(rows, n)
        parts = (rows[part].to(torch.float64) for part in blocks(len(rows), per_row=width(rows)))
        squared = torch.cat([squared_lengths(part) for part in parts])
        return _largest(squared.sqrt(), n)


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


def _largest(scores: Tensor, n: int) -> Picks:
    order = scores.sort(descending=True, stable=True).indices[:n]
    return Picks(order, scores[order].to(torch.float64))


top_k = TopK()
longest = Longest()
