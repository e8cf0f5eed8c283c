"""Rows kept as two factors, so that the gradients of a last layer are never built."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Outer:
    """Row i is the outer product of left[i] and right[i]; c + d numbers stand for c * d.

    k-center and k-means++ take it wherever they take a tensor of rows.
    """

    left: Tensor
    """(n, c)."""
    right: Tensor
    """(n, d)."""

    def __post_init__(self) -> None:
        shapes = f"left {tuple(self.left.shape)} and right {tuple(self.right.shape)}"
        if self.left.ndim != 2 or self.right.ndim != 2 or len(self.left) != len(self.right):
            raise ValueError(f"Outer needs two matrices of equal length, got {shapes}")
        if not self.left.is_floating_point():
            raise TypeError(f"Outer needs floating factors, got {self.left.dtype}")
        if self.left.dtype != self.right.dtype or self.left.device != self.right.device:
            raise ValueError(
                f"Outer needs factors of one dtype on one device, got {self.left.dtype} on "
                f"{self.left.device} and {self.right.dtype} on {self.right.device}"
            )

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, positions: Tensor | slice) -> "Outer":
        return Outer(self.left[positions], self.right[positions])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of both factors."""
        return self.left.dtype

    @property
    def device(self) -> torch.device:
        """The device of both factors."""
        return self.left.device

    def to(self, target: torch.dtype | torch.device) -> "Outer":
        """Both factors in another dtype or on another device, the `target`."""
        return Outer(self.left.to(target), self.right.to(target))

    def detach(self) -> "Outer":
        """The same rows without their history."""
        return Outer(self.left.detach(), self.right.detach())

    def dense(self) -> Tensor:
        """The rows themselves: n * c * d numbers, for small cases only."""
        return (self.left[:, :, None] * self.right[:, None, :]).flatten(1)  # (n, c * d)
