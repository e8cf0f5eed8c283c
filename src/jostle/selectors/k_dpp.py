"""An exact sampler of the k-DPP with linear kernel: n rows in proportion to their squared volume.

The kernel L = rows rows^T is built only where it is smaller than rows^T rows, which has the same eigenvalues. A
draw has two steps (Kulesza and Taskar, 2012): n eigenvectors by elementary symmetric polynomials of the
eigenvalues, then rows, one by one, from the projection that these span.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import Rows, blocks, squared_lengths
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    block_room,
    dense_rows,
    seed_or_fresh,
)
from jostle.utils.progress import note

PROPOSALS = 128  # rows drawn at once

Vectors = Callable[[Tensor | slice], Tensor]  # positions -> their rows in the chosen eigenvectors, (p, n)


@dataclass(frozen=True)
class KDPP(Selector):
    """Draws n rows with a probability in proportion to the determinant of their Gram matrix.

    A pick's score is its probability when it was picked. The rank of the rows limits n. Centers do not matter.

    The draw is exact and has two steps (Kulesza and Taskar, 2012): n eigenvectors by elementary symmetric polynomials
    of the eigenvalues, then rows, one by one, from the projection that these span. The kernel rows rows^T is built
    only where it is smaller than rows^T rows, which has the same eigenvalues.

    Example:
        >>> import jostle, torch
        >>> rows = torch.tensor([[0.0, 1.0], [3.0, 0.0], [3.0, 0.1]])
        >>> len(jostle.k_dpp(rows, 2, seed=0))
        2
    """

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; equal seeds give equal picks."""
        rows, _ = dense_rows("k-DPP", rows, n)
        draws = generator(seed_or_fresh(seed), "k-dpp")
        values, vectors = _spectrum(rows)
        if n > len(values):
            raise ValueError(
                f"asked for {n} rows of rank {len(values)}, and a k-DPP draws no more than the rank; "
                f"ask for at most {len(values)}, pass wider rows (more perturbations), or use k-center"
            )
        chosen = torch.tensor(_eigenvectors(values.log().cpu().numpy(), n, draws), device=rows.device)
        return _projection(_chosen_vectors(rows, values[chosen], vectors[:, chosen]), len(rows), n, draws)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of the smaller Gram matrix with its eigenvectors, and of chances of all rows."""
        side = min(size, width)
        return WORD * (4 * side * side + 3 * size + n * (side + width)) + block_room(size, width)


def _spectrum(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues above rounding of the smaller Gram matrix (rank,), and their vectors (min(n, d), rank)."""
    small = rows if len(rows) >= rows.shape[1] else rows.T  # (longer side, shorter side)
    gram = torch.zeros(small.shape[1], small.shape[1], dtype=torch.float64, device=rows.device)
    for part in blocks(len(small), per_row=small.shape[1], of=rows):
        block = small[part].to(torch.float64)
        gram.addmm_(block.T, block)
    values, vectors = torch.linalg.eigh(gram)
    able = values > max(rows.shape) * torch.finfo(torch.float64).eps * values[-1].clamp(min=0)
    return values[able], vectors[:, able]


def _chosen_vectors(rows: Tensor, values: Tensor, vectors: Tensor) -> Vectors:
    """Return the chosen eigenvectors of rows rows^T by position, computed from those of rows^T rows when asked for."""
    if len(rows) < rows.shape[1]:
        return lambda positions: vectors[positions]
    directions = vectors / values.sqrt()  # (d, n)
    return lambda positions: rows[positions].to(torch.float64) @ directions


def _eigenvectors(logs: NDArray[np.float64], n: int, draws: torch.Generator) -> list[int]:
    """Draw n eigenvectors, a set in proportion to the product of its eigenvalues (given as logarithms)."""
    rank = len(logs)
    sums = np.full((rank + 1, n + 1), -np.inf)  # [i, j]: log of the sum over all j-subsets of the first i
    sums[:, 0] = 0
    for i in range(1, rank + 1):
        sums[i, 1:] = np.logaddexp(sums[i - 1, 1:], logs[i - 1] + sums[i - 1, :-1])
    luck = torch.rand(rank, generator=draws, device=draws.device, dtype=torch.float64).log().numpy()
    chosen: list[int] = []
    for i in range(rank, 0, -1):
        left = n - len(chosen)
        if left and luck[i - 1] < logs[i - 1] + sums[i - 1, left - 1] - sums[i, left]:
            chosen.append(i - 1)
    return chosen


def _projection(vectors: Vectors, count: int, n: int, draws: torch.Generator) -> Picks:
    """Draw rows of n orthonormal columns, in proportion to squared distances from the span of those drawn.

    By rejection: such a distance is at most the row's length, by which rows are proposed. So about n ln n
    proposals suffice, and no pick needs a pass over all rows.
    """
    masses = torch.empty(count, dtype=torch.float64, device=vectors(slice(0, 1)).device)
    for part in blocks(count, per_row=n):
        masses[part] = squared_lengths(vectors(part))
    ladder = masses.cumsum(0)
    span = masses.new_empty(n, n)  # orthonormal rows, one for each pick
    picks: dict[int, float] = {}
    while len(picks) < n:
        where, accept = torch.rand(
            2, PROPOSALS, generator=draws, device=draws.device, dtype=torch.float64
        ).to(masses.device)
        proposed = torch.searchsorted(ladder, where * ladder[-1], right=True).clamp_(max=count - 1)
        before = len(picks)
        _accept(vectors(proposed), proposed.tolist(), accept * masses[proposed], span, picks)
        note(len(picks) - before)
    return Picks.of(list(picks), list(picks.values()), masses.device)


def _accept(rest: Tensor, proposed: list[int], needed: Tensor, span: Tensor, picks: dict[int, float]) -> None:
    """Add accepted proposals to picks and span, in turn."""
    known = span[: len(picks)]
    rest = rest - (rest @ known.T) @ known
    lengths, thresholds = squared_lengths(rest).tolist(), needed.tolist()
    for turn, position in enumerate(proposed):
        if position in picks or thresholds[turn] >= lengths[turn] or len(picks) == len(span):
            continue
        known = span[: len(picks)]
        fresh = rest[turn] - (rest[turn] @ known.T) @ known  # once more, against rounding
        span[len(picks)] = fresh = fresh / torch.linalg.vector_norm(fresh)
        picks[position] = lengths[turn] / (len(span) - len(picks))
        rest = rest - torch.outer(rest @ fresh, fresh)
        lengths = squared_lengths(rest).tolist()


k_dpp = KDPP()
