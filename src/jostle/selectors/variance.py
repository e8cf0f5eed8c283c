"""Explained variance: each pick explains most of the weighted variance that centers and earlier picks leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rows.geometry import Rows, blocks, unit_length
from jostle.rows.mapped import like_rows
from jostle.selectors.base import WORD, Picks, Weighing, block_room, dense_rows


@dataclass(frozen=True)
class ExplainedVariance(Weighing):
    """Rows of unit length are taken for the directions in which a Gaussian's values move together.

    The gain of row i is sum_j w_j C_ij^2 / (C_ii + noise), C being the covariance x x' given all that is labelled or
    picked; a pick's score is its gain. No n x n matrix is made: time O(n d) a pick, memory O(n d + d^2).
    """

    noise: float = 0.05
    """The variance of a label around its value; a row has variance 1 before anything is labelled."""

    def __post_init__(self) -> None:
        if not self.noise > 0:
            raise ValueError(f"noise is a variance above 0; got {self.noise}")

    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n rows; ties go to the earlier row. Without weights all rows count alike."""
        rows, centers = dense_rows("explained variance", rows, n, centers)
        x = _directions(rows)  # (n, d)
        w = x.new_ones(len(x)) if weights is None else weights.to(x)
        spread = _spread(x, w)  # M: what is to be explained, (d, d)
        left = _unexplained(
            x, None if centers is None else unit_length(centers.to(x)), self.noise
        )  # Sigma, (d, d)
        variances, shares = _variances_and_shares(x, left, spread)  # v, q
        positions, scores = list[int](), list[float]()
        for _ in range(n):
            gains = shares.clamp(min=0) / (variances + self.noise)
            gains[positions] = -torch.inf
            best = int(gains.argmax())
            positions.append(best)
            scores.append(float(gains[best]))
            scale = float(variances[best]) + self.noise  # c
            u = left @ x[best]  # (d,)
            a, own = left @ (spread @ u), float(u @ spread @ u)
            along, across = x @ u, x @ a  # (n,), (n,)
            variances -= along.square() / scale
            shares += along * (along * (own / scale**2) - 2 * across / scale)
            left -= torch.outer(u, u) / scale
            note(1)
        return Picks(
            torch.tensor(positions, device=x.device), torch.tensor(scores, dtype=x.dtype, device=x.device)
        )

    def room(self, size: int, width: int, n: int) -> int:
        """Directions of all rows in float64."""
        return WORD * (size * (width + 8) + 4 * width * width) + block_room(size, width)


def _directions(rows: Tensor) -> Tensor:
    """Rows at unit length in float64, (n, d); those of rows in a file go to a file."""
    x = like_rows(rows, tuple(rows.shape), torch.float64)
    for part in blocks(len(rows), per_row=rows.shape[1], of=rows):
        x[part] = unit_length(rows[part].to(torch.float64))
    return x


def _spread(x: Tensor, w: Tensor) -> Tensor:
    """The weighted sum of x x', (d, d), a block of rows at a time."""
    parts = (x[part].T @ (w[part, None] * x[part]) for part in blocks(len(x), per_row=x.shape[1], of=x))
    return reduce(torch.add, parts)


def _variances_and_shares(x: Tensor, left: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """x' Sigma x and x' Sigma M Sigma x of each row, (n,) both, a block of rows at a time."""
    variances, shares = [], []
    for part in blocks(len(x), per_row=x.shape[1], of=x):
        projected = x[part] @ left  # rows Sigma x_i
        variances.append((projected * x[part]).sum(1))
        shares.append(((projected @ spread) * projected).sum(1))
    return torch.cat(variances), torch.cat(shares)


def _unexplained(x: Tensor, centers: Tensor | None, noise: float) -> Tensor:
    """The covariance of directions that the centers leave, (d, d)."""
    whole = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    if centers is None:
        return whole
    gram = centers @ centers.T + noise * torch.eye(len(centers), dtype=x.dtype, device=x.device)
    explained: Tensor = centers.T @ torch.linalg.solve(gram, centers)
    return whole - explained


explained_variance = ExplainedVariance()
