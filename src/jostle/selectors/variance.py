"""Explained variance: each pick explains most of the weighted variance that centers and earlier picks leave."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rows.geometry import Rows, unit_length
from jostle.rows.outer import Outer
from jostle.selectors.base import Picks, Weighing, checked_rows


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
        rows, centers = checked_rows(rows, n, centers)
        if isinstance(rows, Outer) or isinstance(centers, Outer):
            raise TypeError("this selector needs dense rows, got Outer; pass rows.dense() if it fits")
        x = unit_length(rows.to(torch.float64))  # (n, d)
        w = x.new_ones(len(x)) if weights is None else weights.to(x)
        spread = x.T @ (w[:, None] * x)  # M: what is to be explained, (d, d)
        left = _unexplained(
            x, None if centers is None else unit_length(centers.to(x)), self.noise
        )  # Sigma, (d, d)
        projected = x @ left  # rows Sigma x_i
        variances = (projected * x).sum(1)  # v
        shares = ((projected @ spread) * projected).sum(1)  # q
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
        return Picks(
            torch.tensor(positions, device=x.device), torch.tensor(scores, dtype=x.dtype, device=x.device)
        )


def _unexplained(x: Tensor, centers: Tensor | None, noise: float) -> Tensor:
    """The covariance of directions that the centers leave, (d, d)."""
    whole = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    if centers is None:
        return whole
    gram = centers @ centers.T + noise * torch.eye(len(centers), dtype=x.dtype, device=x.device)
    explained: Tensor = centers.T @ torch.linalg.solve(gram, centers)
    return whole - explained


explained_variance = ExplainedVariance()
