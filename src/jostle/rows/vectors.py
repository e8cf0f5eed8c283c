"""Rows of outputs and features: their shapes, and what is not finite in them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def sums_to_one(outputs: Tensor) -> bool:
    """Whether outputs are distributions already; logits are so by accident only."""
    flat = outputs.reshape(len(outputs), -1)
    return bool((flat >= 0).all() and (flat.sum(1) - 1).abs().max() < 1e-4)


def as_vectors(features: Tensor, grid: int = 1) -> Tensor:
    """Features as (n, d): maps are average-pooled to a grid, token sequences averaged over the tokens."""
    if features.ndim == 3:
        return features.mean(1)  # (n, tokens, d)
    if features.ndim > 3:
        pool = {4: nn.functional.adaptive_avg_pool2d, 5: nn.functional.adaptive_avg_pool3d}[features.ndim]
        return pool(features, grid).flatten(1)
    return features if features.ndim == 2 else features.unsqueeze(1)


def join(parts: Sequence[Tensor]) -> Tensor:
    """Rows of all micro-batches."""
    check_shapes([tuple(part.shape[1:]) for part in parts])
    return torch.cat(list(parts))


def check_shapes(shapes: Sequence[tuple[int, ...]]) -> None:
    """Outputs have one shape in all batches, or an error that shows them."""
    if len(set(shapes)) > 1:
        raise ValueError(
            f"outputs differ in shape between batches: {sorted(set(shapes))[:4]}; pad inputs to one length with "
            "collate_fn=, or reduce outputs to one shape with outputs="
        )


def non_finite(rows: Tensor) -> Tensor:
    """Which rows hold NaN or infinity, (n,) on the CPU; looked at in parts, since rows may lie in a large file."""
    size = max(1, 2**20 // max(1, rows[:1].numel()))
    bad = [~torch.isfinite(part.reshape(len(part), -1)).all(1) for part in rows.split(size)]
    return torch.cat(bad).cpu() if bad else torch.zeros(0, dtype=torch.bool, device="cpu")


def refuse_non_finite(positions: Tensor, total: int, what: str) -> None:
    """An error that says which examples gave NaN or infinity, and how many, where there are any."""
    if len(positions):
        shown = ", ".join(map(str, positions[:5].tolist())) + (", ..." if len(positions) > 5 else "")
        raise ValueError(
            f"the model's {what} are NaN or infinite for {len(positions)} of {total} examples "
            f"(positions {shown}): leave these out (exclude= for the pool), or check the weights and inputs"
        )
