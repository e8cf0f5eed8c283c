import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from selector_oracles import assert_farthest_first, distances, plain_k_center, tiny_blocks
from selector_rows import normal
from torch import Tensor

from jostle.rows.geometry import Outer
from jostle.selectors import KCenter, k_center


def nasty(seed: int) -> Tensor:
    """Rows with duplicates, clusters, heavy tails or a far offset, as the seed says."""
    rng = torch.Generator().manual_seed(seed)

    def below(high: int) -> int:
        return int(torch.randint(high, (1,), generator=rng))

    n, d = 1 + below(60), 1 + below(12)
    rows = torch.randn(n, d, generator=rng)
    for change in torch.randperm(5, generator=rng)[: below(4)].tolist():
        if change == 0:
            rows = rows[torch.randint(n, (n,), generator=rng)]
        elif change == 1:
            rows = rows * torch.randn(n, 1, generator=rng).mul(3).exp()
        elif change == 2:
            rows = rows + 10.0 ** below(5) * torch.randn(1, d, generator=rng)
        elif change == 3:
            rows = rows * 1e-3 + 1e3 * torch.randn(3, d, generator=rng)[torch.randint(3, (n,), generator=rng)]
        else:
            rows = rows.round()
    return rows


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31), share=st.floats(0.01, 1), small=st.booleans(), labeled=st.integers(0, 12))
def test_every_pick_is_the_farthest_whatever_the_rows(
    seed: int, share: float, small: bool, labeled: int
) -> None:
    rows = nasty(seed)
    centers = rows[:labeled] + normal(len(rows[:labeled]), rows.shape[1]) if labeled else None
    n = max(1, round(share * len(rows)))
    if small:
        with tiny_blocks():
            picks = k_center.pick(rows, n, centers=centers)
    else:
        picks = k_center.pick(rows, n, centers=centers)
    assert_farthest_first(rows, picks, centers)
    assert (picks.scores.diff() <= 1e-5 * picks.scores[0]).all()


@pytest.mark.parametrize("rows", [torch.zeros(150, 3), torch.ones(150, 3), normal(7, 3).repeat(30, 1)])
def test_duplicates_come_once_each_and_after_all_else(rows: Tensor) -> None:
    picks = k_center.pick(rows, len(rows))
    assert sorted(picks.positions.tolist()) == list(range(len(rows)))
    distinct = len(rows[rows.abs().sum(1) > 0].unique(dim=0))
    assert (picks.scores[:distinct] > 0).all()
    assert (picks.scores[distinct:] == 0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ties_go_to_the_smallest_key_of_the_seed(seed: int) -> None:
    grid = torch.cartesian_prod(torch.arange(-5.0, 6.0), torch.arange(-5.0, 6.0))
    assert k_center(grid, len(grid), seed=seed).tolist() == plain_k_center(grid, len(grid), seed)
    with tiny_blocks():
        assert k_center(grid, len(grid), seed=seed).tolist() == plain_k_center(grid, len(grid), seed)


def test_covering_radius_is_at_most_twice_the_optimum() -> None:
    for seed in range(20):
        rows = normal(9, 2, seed=seed)
        apart = distances(rows, rows)
        picks = KCenter(origin=False)(rows, 3, seed=seed)
        optimum = min(apart[:, list(s)].amin(1).max() for s in itertools.combinations(range(9), 3))
        assert apart[:, picks].amin(1).max() <= 2 * optimum


def test_without_origin_the_seed_draws_the_first_pick() -> None:
    rows = normal(50, 4)
    picks = KCenter(unit=True, origin=False).pick(rows, 20, seed=3)
    assert picks.scores[0].isnan()
    unit = rows.double() / rows.double().norm(dim=1, keepdim=True)
    rest = type(picks)(picks.positions[1:], picks.scores[1:])
    assert_farthest_first(unit, rest, unit[picks.positions[:1]])
    assert KCenter(unit=True, origin=False)(rows, 20, seed=3).tolist() == picks.positions.tolist()
    firsts = {int(KCenter(origin=False)(rows, 1, seed=seed)) for seed in range(30)}
    assert len(firsts) > 10
    assert len(KCenter(origin=False)(rows, 50, seed=0).unique()) == 50


def test_unit_rows_ignore_lengths_and_keep_zero_rows() -> None:
    rows = torch.tensor([[1e-30, 0.0], [0.0, 1e30], [-1.0, 0.0], [0.0, 0.0]], dtype=torch.float32)
    picks = KCenter(unit=True).pick(rows, 4, centers=torch.tensor([[5.0, 0.0]]))
    assert picks.positions.tolist() == [2, 1, 3, 0]
    torch.testing.assert_close(picks.scores, torch.tensor([2.0, 2.0**0.5, 1.0, 0.0], dtype=torch.float64))


def test_factors_give_the_picks_of_the_rows_they_stand_for() -> None:
    rows = Outer(normal(200, 4), normal(200, 6, seed=1))
    centers = Outer(normal(9, 4, seed=2), normal(9, 6, seed=3))
    for outer, dense in ((None, None), (centers, centers.dense())):
        picks, expected = (
            k_center.pick(rows, 80, centers=outer),
            k_center.pick(rows.dense(), 80, centers=dense),
        )
        assert picks.positions.tolist() == expected.positions.tolist()
        torch.testing.assert_close(picks.scores, expected.scores, rtol=1e-5, atol=0)
    copies = rows[torch.arange(20).repeat(5)]
    assert (k_center.pick(copies, 100).scores[20:] == 0).all()


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e25, 1e37])
def test_squares_may_leave_the_range_of_float32(size: float) -> None:
    rows = normal(200, 8) * size
    assert k_center(rows, 60).tolist() == k_center(rows.double() / size, 60).tolist()


def test_rows_on_disk(tmp_path) -> None:
    rows = normal(300, 10)
    rows.numpy().tofile(tmp_path / "rows.bin")
    mapped = torch.from_file(str(tmp_path / "rows.bin"), size=3000, dtype=torch.float32).view(300, 10)
    assert k_center(mapped, 100).tolist() == k_center(rows, 100).tolist()
