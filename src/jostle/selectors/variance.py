"""Explained variance: each pick explains most of the weighted variance that centers and earlier picks leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from jostle.rows.geometry import Rows, blocks, unit_length
from jostle.selectors.base import (
    WORD,
    Picks,
    Weighing,
    block_room,
    checked_weights,
    dense_rows,
    first_copies,
    pick_one_by_one,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.clusters import unit_in_float64


@dataclass(frozen=True)
class ExplainedVariance(Weighing):
    """Rows of unit length are taken for the directions in which a Gaussian's values move together.

    The gain of row i is sum_j w_j C_ij^2 / (C_ii + noise), C being the covariance x x' given all that is labeled or
    picked; a pick's score is its gain. With s the smaller of n and d, a pick takes time O(n s) and all of it memory
    O(n d + s^2): many rows make no n x n matrix, and wide ones no d x d matrix. Labeled rows make a matrix of their
    own only where they are fewer than d.
    """

    ranges: ClassVar = {"noise": "(0, inf)"}
    noise: float = 0.05
    """The variance of a label around its value; a row has variance 1 before anything is labeled."""

    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n rows; the seed draws exact ties. Without weights all rows count the same."""
        rows, centers = dense_rows("explained variance", rows, n, centers)
        x = unit_in_float64(rows)  # (n, d)
        w = checked_weights(weights, x)
        known = None if centers is None else unit_length(centers.to(x))
        kind = ByNumbers if x.shape[1] <= len(x) else ByRows
        unexplained = kind.of(x, w, known, self.noise)
        keys = tie_keys(seed_or_fresh(seed), torch.arange(len(x), device=x.device))
        return pick_one_by_one(
            n,
            lambda: unexplained.gains(self.noise),
            lambda best: unexplained.subtract(best, self.noise),
            keys,
            first_copies(rows),
        )

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of directions in float64, and of the covariance of rows or of numbers."""
        return WORD * (size * (width + 10) + 4 * min(size, width) ** 2) + block_room(size, width)


@dataclass
class ByRows:
    """Covariance of few wide rows given what is labeled or picked, as an (n, n) matrix."""

    covariance: Tensor  # C, (n, n)
    weights: Tensor  # (n,)

    @classmethod
    def of(cls, x: Tensor, weights: Tensor, known: Tensor | None, noise: float) -> ByRows:
        """Return the covariance of rows of unit length, given those that are labeled."""
        covariance = x @ x.T
        if known is not None and len(known) > x.shape[1]:
            covariance = x @ _left_by_many(known, noise) @ x.T
        elif known is not None:
            across = known @ x.T  # (m, n)
            covariance -= across.T @ torch.linalg.solve(_noisy_gram(known, noise), across)
        return cls(covariance, weights)

    def gains(self, noise: float) -> Tensor:
        """Return the gain of each row, (n,)."""
        shares = self.covariance.square() @ self.weights
        return shares / (self.covariance.diagonal() + noise)

    def subtract(self, best: int, noise: float) -> None:
        """Subtract what a pick explains."""
        row = self.covariance[best].clone()
        self.covariance.addr_(row, row, alpha=-1 / (float(row[best]) + noise))


@dataclass
class ByNumbers:
    """Covariance of many narrow rows given what is labeled or picked, by that of their numbers, (d, d)."""

    x: Tensor  # (n, d)
    spread: Tensor  # M: what is to be explained, (d, d)
    left: Tensor  # Sigma, (d, d)
    variances: Tensor  # x' Sigma x, (n,)
    shares: Tensor  # x' Sigma M Sigma x, (n,)

    @classmethod
    def of(cls, x: Tensor, weights: Tensor, known: Tensor | None, noise: float) -> ByNumbers:
        """Return the covariance of the numbers of rows of unit length, given those that are labeled."""
        left = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        if known is not None and len(known) > x.shape[1]:
            left = _left_by_many(known, noise)
        elif known is not None:
            left -= known.T @ torch.linalg.solve(_noisy_gram(known, noise), known)
        parts = (
            x[part].T @ (weights[part, None] * x[part]) for part in blocks(len(x), per_row=x.shape[1], of=x)
        )
        spread = reduce(torch.add, parts)  # the weighted sum of x x', (d, d)
        return cls(x, spread, left, *_variances_and_shares(x, left, spread))

    def gains(self, noise: float) -> Tensor:
        """Return the gain of each row, (n,)."""
        return self.shares.clamp(min=0) / (self.variances + noise)

    def subtract(self, best: int, noise: float) -> None:
        """Subtract what a pick explains."""
        scale = float(self.variances[best]) + noise  # c
        u = self.left @ self.x[best]  # (d,)
        a, own = self.left @ (self.spread @ u), float(u @ self.spread @ u)
        along, across = self.x @ u, self.x @ a  # (n,), (n,)
        self.variances -= along.square() / scale
        self.shares += along * (along * (own / scale**2) - 2 * across / scale)
        self.left -= torch.outer(u, u) / scale


def _variances_and_shares(x: Tensor, left: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Return x' Sigma x and x' Sigma M Sigma x of each row, (n,) both, computed by blocks of rows."""
    variances, shares = x.new_empty(len(x)), x.new_empty(len(x))
    for part in blocks(len(x), per_row=x.shape[1], of=x):
        projected = x[part] @ left  # rows Sigma x_i
        variances[part] = (projected * x[part]).sum(1)
        shares[part] = ((projected @ spread) * projected).sum(1)
    return variances, shares


def _noisy_gram(known: Tensor, noise: float) -> Tensor:
    """Return the covariance of the labels of these rows, (m, m)."""
    return known @ known.T + noise * torch.eye(len(known), dtype=known.dtype, device=known.device)


def _left_by_many(known: Tensor, noise: float) -> Tensor:
    """Return Sigma after labels of more rows than they have numbers, (d, d), by Woodbury's identity."""
    identity = torch.eye(known.shape[1], dtype=known.dtype, device=known.device)
    left: Tensor = noise * torch.linalg.inv(known.T @ known + noise * identity)
    return (left + left.T) / 2


explained_variance = ExplainedVariance()
