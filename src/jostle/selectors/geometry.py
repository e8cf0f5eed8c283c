"""Lengths, products and distances of rows, dense or outer: the one place that asks which."""

from collections.abc import Iterator

import torch
from torch import Tensor

from jostle.selectors.outer import Outer

Rows = Tensor | Outer

DOUBT = 1e-6  # a squared distance known less well than this, relatively, is worked out from differences
BLOCK_NUMBERS = 1 << 20  # numbers held at once by what works in blocks


def width(rows: Rows) -> int:
    """Numbers stored for a row, which bounds the rounding of its products."""
    return rows.left.shape[1] + rows.right.shape[1] if isinstance(rows, Outer) else rows.shape[1]


def squared_lengths(rows: Rows) -> Tensor:
    """Squared Euclidean length of each row, (n,)."""
    if isinstance(rows, Outer):
        return squared_lengths(rows.left) * squared_lengths(rows.right)
    return torch.linalg.vector_norm(rows, dim=1).square()


def products(rows: Rows, others: Rows) -> Tensor:
    """Inner products of all rows with all others, (n, m)."""
    if isinstance(rows, Outer) and isinstance(others, Outer):
        return (rows.left @ others.left.T).mul_(rows.right @ others.right.T)  # (a x h).(b x k) = (a.b)(h.k)
    assert isinstance(rows, Tensor) and isinstance(others, Tensor)
    return rows @ others.T


def squared_differences(rows: Rows, others: Rows) -> Tensor:
    """Squared distance of each row to its partner, from differences: exact for near and equal rows, (n,)."""
    if isinstance(rows, Outer) and isinstance(others, Outer):
        left, right = rows.left - others.left, rows.right - others.right
        # a x h - b x k = (a - b) x h + b x (h - k)
        crossed = 2 * (left * others.left).sum(1) * (rows.right * right).sum(1)
        straight = squared_lengths(Outer(left, rows.right)) + squared_lengths(Outer(others.left, right))
        return (straight + crossed).clamp_(min=0)
    assert isinstance(rows, Tensor) and isinstance(others, Tensor)
    return squared_lengths(rows - others)


def unit_length(rows: Rows) -> Rows:
    """Rows divided by their length; zero rows stay zero."""
    if isinstance(rows, Outer):
        left, right = unit_length(rows.left), unit_length(rows.right)
        assert isinstance(left, Tensor) and isinstance(right, Tensor)
        return Outer(left, right)
    largest = rows.abs().amax(1, keepdim=True)
    scaled = rows / torch.where(largest > 0, largest, 1)  # so that squares neither overflow nor vanish
    lengths = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / torch.where(lengths > 0, lengths, 1)


def origin(rows: Rows) -> Rows:
    """One zero row of the same kind."""
    if isinstance(rows, Outer):
        return Outer(rows.left.new_zeros(1, rows.left.shape[1]), rows.right.new_zeros(1, rows.right.shape[1]))
    return rows.new_zeros(1, rows.shape[1])


def blocks(count: int, size: int) -> Iterator[slice]:
    """Slices that cover range(count), each at most `size` long."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def rounding(rows: Rows) -> float:
    """Bound of a squared distance's error, relative to the sum of both squared lengths, for any summing order.

    Covers the norms, the product and rows scaled to unit length beforehand.
    """
    return (4 * width(rows) + 32) * torch.finfo(rows.dtype).eps / 2


def distance_bounds(rows: Rows, centers: Rows) -> Tensor:
    """Squared distance of each row to its nearest center, rounded so that it is never too small, (n,)."""
    grow = 1 + rounding(rows)
    tiny = width(rows) * torch.finfo(rows.dtype).tiny  # squares may vanish
    lengths = squared_lengths(centers) * grow
    nearest = products(rows, centers).mul_(-2).add_(lengths).amin(1)
    bounds = nearest.add_(squared_lengths(rows) * grow).add_(tiny).to(torch.float64)
    if rows.dtype != torch.float64 and not bounds.isfinite().all():  # squares overflow
        return distance_bounds(rows.to(torch.float64), centers.to(torch.float64))
    return bounds


def squared_distances(rows: Rows, centers: Rows) -> tuple[Tensor, Tensor]:
    """All squared distances (n, m), and below which value each row's are in doubt (n,)."""
    row_lengths, center_lengths = squared_lengths(rows), squared_lengths(centers)
    distances = products(rows, centers).mul_(-2).add_(center_lengths).add_(row_lengths[:, None])
    return distances, (row_lengths + center_lengths.max()) * (rounding(rows) / DOUBT)


def nearest_distances(rows: Rows, centers: Rows) -> Tensor:
    """Squared distance of each row to its nearest center, relative error below DOUBT, (n,).

    Where products cancel, the centers that may be the nearest are measured again from differences.
    """
    distances, doubtful = squared_distances(rows, centers)
    nearest = distances.amin(1)
    again = (nearest < doubtful).nonzero()[:, 0]
    for part in again.split(max(1, BLOCK_NUMBERS // len(centers))):
        reach = nearest[part] + 2 * DOUBT * doubtful[part]
        nearest[part] = _measured_again(rows[part], centers, distances[part] <= reach[:, None])
    return nearest


def _measured_again(rows: Rows, centers: Rows, close: Tensor) -> Tensor:
    pairs = close.nonzero()  # (pairs, 2)
    nearest = torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
    for row, center in (part.T for part in pairs.split(max(1, BLOCK_NUMBERS // width(rows)))):
        nearest.scatter_reduce_(0, row, squared_differences(rows[row], centers[center]), "amin")
    return nearest
