"""Rows for selectors: drawn ones, and such as every selector of the registry takes."""

import torch
from torch import Tensor

OF_SCORES = ("top-k", "stochastic")  # take one score for each example; a power needs it to be 0 or more


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers that follow from a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fitting(name: str, rows: Tensor) -> Tensor:
    """The rows, or for a selector of scores the size of the first number of each, (n, 1)."""
    return rows[:, :1].abs() if name in OF_SCORES else rows
