"""Selectors work in blocks: no tensor of theirs grows with the square of the pool."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from selector_rows import fitting, normal
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jostle.rows.geometry import BLOCK_NUMBERS, Outer
from jostle.selectors import KCenter, Selector, names, selector
from jostle.selectors.prob_cover import ProbCover, pure_radius

DRAWING = ["k-means++", "k-dpp", "uniform", "stochastic"]
GEOMETRIC = ["k-center", "k-means++", "k-dpp", "longest"]


def rows_for(name: str, n: int = 40) -> Tensor:
    return fitting(name, normal(n, 12))


@pytest.mark.parametrize("name", names())
class TestEverySelector:
    def test_gives_distinct_positions_and_one_score_each(self, name: str) -> None:
        picks = selector(name).pick(rows_for(name), 10, seed=0)
        assert len(set(picks.positions.tolist()) & set(range(40))) == 10
        assert picks.positions.dtype == torch.int64
        assert picks.scores.shape == (10,)
        assert picks.scores.dtype == torch.float64
        assert sorted(selector(name)(rows_for(name, 9), 9, seed=0).tolist()) == list(range(9))

    def test_repeats_with_its_seed_and_leaves_rows_and_global_states_alone(self, name: str) -> None:
        rows, state = rows_for(name), torch.get_rng_state()
        before = rows.clone()
        first, again = (selector(name)(rows, 10, seed=7).tolist() for _ in range(2))
        assert first == again
        assert torch.equal(rows, before)
        assert torch.equal(torch.get_rng_state(), state)

    def test_says_whether_centers_play_a_part(self, name: str) -> None:
        rows = rows_for(name)
        first = selector(name)(rows, 10, seed=7)
        again = selector(name)(rows, 10, centers=rows[first], seed=7)
        assert selector(name).uses_centers == (first.tolist() != again.tolist())

    def test_refuses_what_cannot_be_picked(self, name: str) -> None:
        for n, message in ((0, "asked for 0 rows; ask for at least 1"), (41, "asked for 41 rows from 40")):
            with pytest.raises(ValueError, match=message):
                selector(name)(rows_for(name), n)
        with pytest.raises(ValueError, match="no rows"):
            selector(name)(rows_for(name)[:0], 1)
        with pytest.raises(TypeError, match=r"whole number, got 2\.5"):
            selector(name)(rows_for(name), 2.5)


@pytest.mark.parametrize("name", GEOMETRIC)
class TestEveryGeometricSelector:
    def test_refuses_rows_that_are_not_finite(self, name: str) -> None:
        rows = rows_for(name)
        rows[3, 1], rows[9, 0] = torch.nan, -torch.inf
        with pytest.raises(
            ValueError, match=r"2 of 40 rows hold NaN or infinity \(first at positions 3, 9\)"
        ):
            selector(name)(rows, 2)

    def test_takes_finite_rows_whose_sum_is_not(self, name: str) -> None:
        rows = rows_for(name)
        rows[5] = 3e38
        assert selector(name)(rows, 1, seed=0).tolist() == [5]

    def test_refuses_what_is_no_matrix(self, name: str) -> None:
        with pytest.raises(ValueError, match=r"matrix \(n, d\).*got \(4, 3, 2\)"):
            selector(name)(torch.zeros(4, 3, 2), 1)
        with pytest.raises(ValueError, match=r"got \(4, 0\)"):
            selector(name)(torch.zeros(4, 0), 1)
        with pytest.raises(TypeError, match="real"):
            selector(name)(torch.zeros(4, 2, dtype=torch.complex64), 1)


@pytest.mark.parametrize("name", ["k-center", "k-means++"])
def test_centers_must_fit_the_rows(name: str) -> None:
    rows = rows_for(name)
    with pytest.raises(ValueError, match=r"rows are dense \(12\), centers are dense \(5\)"):
        selector(name)(rows, 2, torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"centers are Outer \(3, 4\)"):
        selector(name)(rows, 2, Outer(torch.zeros(3, 3), torch.zeros(3, 4)))
    with pytest.raises(ValueError, match="centers are empty; pass None"):
        selector(name)(rows, 2, rows[:0])
    with pytest.raises(ValueError, match="1 of 2 centers hold NaN"):
        selector(name)(rows, 2, torch.tensor([[0.0] * 12, [torch.nan] * 12]))
    with pytest.raises(ValueError, match=r"1 of 3 rows\.right hold NaN"):
        selector(name)(Outer(torch.ones(3, 2), torch.tensor([[1.0], [torch.nan], [1.0]])), 2)


@pytest.mark.parametrize("name", DRAWING)
def test_without_a_seed_draws_are_fresh(name: str) -> None:
    assert len({tuple(selector(name)(rows_for(name), 10).tolist()) for _ in range(5)}) > 1


def test_a_selector_is_itself_and_a_function_becomes_one() -> None:
    own = KCenter(unit=True)
    assert selector(own) is own
    last = selector(lambda rows, n: torch.arange(len(rows) - n, len(rows)))
    assert isinstance(last, Selector)
    picks = last.pick(torch.zeros(6, 2), 2)
    assert picks.positions.tolist() == [4, 5]
    assert picks.scores.isnan().all()


@pytest.mark.parametrize("positions", [[0, 0], [0, 9], [-1, 0]])
def test_a_function_that_returns_nonsense_is_told_so(positions: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct positions from 0 to 5"):
        selector(lambda rows, n: torch.tensor(positions))(torch.zeros(6, 2), 2)
    with pytest.raises(ValueError, match=r"must return 2 positions, got torch.float32 of shape \(3,\)"):
        selector(lambda rows, n: torch.zeros(3))(torch.zeros(6, 2), 2)


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
