"""Selectors work in blocks: no tensor of theirs grows with the square of the pool."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from selector_rows import fitting
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jostle.rows.geometry import BLOCK_NUMBERS
from jostle.selectors import names, selector
from jostle.selectors.prob_cover import ProbCover, pure_radius

N, D = 3000, 8


class Largest(TorchDispatchMode):
    """Knows the most numbers that any tensor held which was made inside."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.numbers = max(
            [self.numbers, *(leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, Tensor))]
        )
        return made


@pytest.fixture
def rows() -> Tensor:
    return torch.randn(N, D)


@pytest.mark.parametrize("name", names())
def test_blocks_bound_the_memory_of_every_selector(name: str, rows: Tensor) -> None:
    chosen = selector(name)
    rows = fitting(name, rows)
    centers = rows[: N // 4] if chosen.uses_centers else None
    with Largest() as seen:
        chosen.pick(rows, 8, centers=centers, seed=0)
    assert seen.numbers <= BLOCK_NUMBERS + N


def test_blocks_bound_the_memory_of_balls_and_of_their_radius(rows: Tensor) -> None:
    with Largest() as seen:
        ProbCover(delta=0.5).pick(rows, 8, seed=0)
        pure_radius(rows, torch.arange(N) % 5, 0.95)
    assert seen.numbers <= BLOCK_NUMBERS + N
