"""Exact ties are drawn by the seed: the order of a pool gives no row an advantage, and neither do shards."""

import pytest
import torch
from selector_rows import fitting, normal
from torch import Tensor

from jostle.selectors import Selector, break_ties, first_copies, names, selector, tie_keys

COPIES, SEEDS = 3, 48


def pool_with_copies(name: str) -> Tensor:
    """Rows of which the favorite of most selectors is there several times, far apart in the pool."""
    return fitting(name, normal(24, 5, seed=3).repeat(COPIES, 1))


def chooser(name: str) -> Selector:
    return selector({"prob-cover": "prob-cover(delta=1.5)", "typical": "typical(clusters=1)"}.get(name, name))


@pytest.mark.parametrize("name", [name for name in names() if name != "k-dpp"])
def test_each_copy_is_picked_first_about_as_often(name: str) -> None:
    rows = pool_with_copies(name)
    centers = (
        rows[:2] + 5 if chooser(name).uses_centers and name not in ("k-means++", "k-center-unit") else None
    )
    counts = torch.zeros(COPIES)
    for seed in range(SEEDS):
        counts[int(chooser(name)(rows, 1, centers=centers, seed=seed)) // 24] += 1
    expected = SEEDS / COPIES
    spread = (expected * (1 - 1 / COPIES)) ** 0.5
    assert (counts - expected).abs().max() < 4.5 * spread, counts.tolist()


DRAWING = ("k-dpp", "uniform", "k-means++", "stochastic")  # draws go by position


@pytest.mark.parametrize("name", [name for name in names() if name not in DRAWING])
def test_a_permuted_pool_gives_permuted_rows(name: str) -> None:
    rows = fitting(name, normal(60, 5, seed=1))
    chosen = selector("typical(clusters=1)") if name == "typical" else selector(name)
    if name == "prob-cover":  # gains are whole numbers, most of them tied
        rows = rows[:3].repeat_interleave(torch.tensor([30, 20, 10]), 0) * 9
    order = torch.randperm(60, generator=torch.Generator().manual_seed(2))
    centers = rows[:1] * 2 if name == "k-center-unit" else None  # all rows are as far from the origin
    n = 1 if name == "weighted-k-means" else 3  # k-means draws where several clusters start
    straight, permuted = (
        source[chosen(source, n, centers=centers, seed=4)] for source in (rows, rows[order])
    )
    assert torch.equal(straight, permuted)


def test_the_smallest_key_wins_among_the_largest_values() -> None:
    keys = torch.tensor([3, 1, 2, 0])
    assert break_ties(torch.tensor([5.0, 5.0, 5.0, 4.0]), keys) == 1
    assert break_ties(torch.tensor([5.0, 5.0, 6.0, 4.0]), keys) == 2
    assert len(tie_keys(0, torch.arange(5000)).unique()) == 5000
    assert tie_keys(0, torch.tensor([7])) == tie_keys(0, torch.arange(9))[7] != tie_keys(1, torch.tensor([7]))


def test_copies_are_found_by_their_numbers_not_by_their_sums() -> None:
    assert first_copies(torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])) is None
    rows = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, -0.0], [-0.0, 0.0], [2.0, 1.0]])
    found = first_copies(rows)
    assert found is not None
    assert found.tolist() == [0, 1, 0, 3, 3, 1]
