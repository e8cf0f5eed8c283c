"""Rows of outputs and features: their shapes, and what is not finite in them."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from jostle.rows.mapped import release

Reduction = Literal["mean", "sum", "max"]  # how numbers of several sites become one


def as_vectors(features: Tensor, grid: int = 1, mask: Tensor | None = None) -> Tensor:
    """Features as (n, d): maps are average-pooled to a grid, sequences averaged over the tokens that a mask lets in.

    Args:
        features: (n, d), (n, tokens, d) or (n, channels, ...).
        grid: So many by so many places.
        mask: (n, tokens), or None for all.
    """
    if features.ndim == 3:
        return mean_over(features, mask)  # (n, tokens, d)
    if features.ndim > 3:
        pool = {4: nn.functional.adaptive_avg_pool2d, 5: nn.functional.adaptive_avg_pool3d}[features.ndim]
        return pool(features, grid).flatten(1)
    return features if features.ndim == 2 else features.unsqueeze(1)


def mean_over(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean of `values` (n, k, ...) over k, of what a `mask` (n, k) lets in; 0 where that is none."""
    if mask is None:
        return values.mean(1)
    counted = mask.view(*mask.shape, *[1] * (values.ndim - 2))
    return torch.where(counted, values, 0).sum(1) / counted.sum(1).clamp(min=1)


def reduce_over(values: Tensor, mask: Tensor | None = None, reduction: Reduction = "mean") -> Tensor:
    """Reduce `values` (n, k, ...) over k, of what a `mask` (n, k) lets in, by their "mean", "sum" or "max".

    Args:
        values: Numbers of each site.
        mask: Which sites count; None: all. An example without any gets 0.
        reduction: How they become one.
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction must be one of {', '.join(get_args(Reduction))}; got {reduction!r}")
    if reduction == "mean":
        return mean_over(values, mask)
    if mask is None:
        return values.sum(1) if reduction == "sum" else values.amax(1)
    counted = mask.view(*mask.shape, *[1] * (values.ndim - 2))
    if reduction == "sum":
        return torch.where(counted, values, 0).sum(1)
    largest = torch.where(counted, values, -torch.inf).amax(1)
    return torch.where(counted.any(1), largest, 0)


def aligned(values: Tensor, mask: Tensor | None, length: int) -> Tensor:
    """The `values` (n, k, ...) that a `mask` (n, k) lets in, in their order, then zeros: (n, `length`, ...)."""
    mask = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device) if mask is None else mask
    order = (~mask).byte().sort(dim=1, stable=True).indices[:, :length]
    each = (*order.shape, *[1] * (values.ndim - 2))
    moved = values.gather(1, order.view(each).expand(*order.shape, *values.shape[2:]))
    kept = torch.where(mask.gather(1, order).view(each), moved, 0)
    missing = kept.new_zeros(len(kept), length - kept.shape[1], *kept.shape[2:])
    return torch.cat([kept, missing], dim=1)


def check_shapes(shapes: Sequence[tuple[int, ...]]) -> None:
    """Outputs have one shape in all batches, or an error that shows the `shapes`."""
    if len(set(shapes)) > 1:
        raise ValueError(
            f"outputs differ in shape between batches: {sorted(set(shapes))[:4]}; pad inputs to one length with "
            "collate_fn=, say with mask= which tokens count, or reduce outputs to one shape with outputs="
        )


def non_finite(rows: Tensor) -> Tensor:
    """Which rows hold NaN or infinity, (n,) on the CPU; looked at in parts, since rows may lie in a large file."""
    size = max(1, 2**20 // max(1, rows[:1].numel()))
    bad = torch.empty(len(rows), dtype=torch.bool, device="cpu")
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        bad[start : start + size] = ~torch.isfinite(part.reshape(len(part), -1)).all(1)
        release(rows)
    return bad


def refuse_non_finite(positions: Tensor, total: int, what: str) -> None:
    """An error that says which examples gave NaN or infinity, and how many, where there are any.

    Args:
        positions: Of these examples.
        total: How many there are in all.
        what: What is NaN or infinite.
    """
    if len(positions):
        shown = ", ".join(map(str, positions[:5].tolist())) + (", ..." if len(positions) > 5 else "")
        raise ValueError(
            f"the model's {what} are NaN or infinite for {len(positions)} of {total} examples "
            f"(positions {shown}): leave these out (exclude= for the pool), or check the weights and inputs"
        )
