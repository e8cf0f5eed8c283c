"""Stochastic acquisition draws in the proportions of its definition."""

from __future__ import annotations

import pytest
import torch
from selector_rows import normal

from jostle.rows.geometry import Outer
from jostle.selectors import Selector, Stochastic, WeightedKMeans, longest, top_k, uniform


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_the_largest_scores_come_first(shape: tuple[int, ...]) -> None:
    scores = torch.tensor([1.0, 3.0, 2.0, 4.0, -torch.inf]).view(shape)
    picks = top_k.pick(scores, 5)
    assert picks.positions.tolist() == [3, 1, 2, 0, 4]
    assert picks.scores.tolist() == [4.0, 3.0, 2.0, 1.0, -torch.inf]
    assert picks.scores.dtype == torch.float64
    assert top_k(scores.numpy(), 2).tolist() == [3, 1]


@pytest.mark.parametrize("selector", [top_k, longest], ids=["top-k", "longest"])
def test_ties_are_drawn_with_the_seed_and_nothing_else_is(selector: Selector) -> None:
    scores = torch.tensor([[5.0], *[[2.0]] * 12, [3.0]])  # sorted, as a pool by class may be
    picks = selector.pick(scores, 14, seed=0)
    assert picks.positions[:2].tolist() == [0, 13]
    assert sorted(picks.positions[2:].tolist()) == list(range(1, 13))
    assert picks.scores.tolist() == [5.0, 3.0, *[2.0] * 12]
    assert selector(scores, 14, seed=0).tolist() == picks.positions.tolist()
    assert selector(scores, 5, seed=0).tolist() == picks.positions[:5].tolist()
    assert selector(scores, 14, seed=1).tolist() != picks.positions.tolist()


def test_what_is_no_score_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 of 3 scores are NaN \(first at positions 0, 2\)"):
        top_k(torch.tensor([torch.nan, 0.0, torch.nan]), 1)
    with pytest.raises(ValueError, match=r"one number for each example.*\(4, 2\)"):
        top_k(torch.zeros(4, 2), 1)
    with pytest.raises(TypeError, match="Outer"):
        top_k(Outer(normal(3, 2), normal(3, 2)), 1)
    with pytest.raises(ValueError, match="asked for 4 rows from 3"):
        top_k(torch.zeros(3), 4)


def test_the_longest_rows_come_with_their_lengths() -> None:
    rows = normal(50, 6)
    picks = longest.pick(rows, 20)
    lengths = rows.double().norm(dim=1).sort(descending=True)
    assert picks.positions.tolist() == lengths.indices[:20].tolist()
    torch.testing.assert_close(picks.scores, lengths.values[:20])
    factors = Outer(normal(50, 2), normal(50, 3, seed=1))
    assert longest(factors, 9).tolist() == longest(factors.dense(), 9).tolist()


def test_uniform_draws_a_seeded_order() -> None:
    rows = torch.full((30, 2), torch.nan)
    picks = uniform.pick(rows, 30, seed=0)
    assert sorted(picks.positions.tolist()) == list(range(30))
    assert picks.scores.isnan().all()
    assert uniform(rows, 10, seed=0).tolist() == picks.positions[:10].tolist()
    assert uniform(rows, 30, seed=1).tolist() != picks.positions.tolist()


@pytest.mark.parametrize(
    ("kind", "beta", "chances"),
    [
        ("power", 2.0, [1.0, 4.0, 9.0, 16.0]),
        ("softmax", 0.5, [torch.e**0.5, torch.e, torch.e**1.5, torch.e**2]),
        ("softrank", 1.0, [1 / 4, 1 / 3, 1 / 2, 1]),
    ],
)
def test_first_picks_come_in_proportion(kind: str, beta: float, chances: list[float]) -> None:
    scores, draw = torch.tensor([1.0, 2.0, 3.0, 4.0]), Stochastic(kind=kind, beta=beta)
    first = torch.stack([draw.pick(scores, 2, seed=seed).positions for seed in range(800)])
    expected = torch.tensor(chances) / sum(chances)
    shares = first[:, 0].bincount(minlength=4) / 800
    torch.testing.assert_close(shares, expected, rtol=0, atol=4 * 0.5 / 800**0.5)
    assert (first[:, 0] != first[:, 1]).all()


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_a_large_beta_takes_the_largest_scores_and_scores_have_no_noise(kind: str) -> None:
    scores = torch.rand(50, dtype=torch.float64) * 5
    picks = Stochastic(kind=kind, beta=1e6).pick(scores, 7, seed=0)
    assert picks.positions.tolist() == scores.topk(7).indices.tolist()
    assert picks.scores.tolist() == scores.topk(7).values.tolist()


def test_negative_scores_have_no_power() -> None:
    with pytest.raises(ValueError, match="scores of 0 or more; got -1"):
        Stochastic().pick(torch.tensor([-1.0, 2.0]), 1, seed=0)
    with pytest.raises(ValueError, match="unknown kind"):
        Stochastic(kind="gumbel")


def test_weights_pull_the_centers_of_k_means() -> None:
    rows = torch.tensor([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    for weights, expected in (([1, 1, 9, 9, 1, 1], {2, 3}), ([9, 1, 1, 1, 1, 9], {0, 5})):
        weighted = torch.tensor(weights, dtype=torch.float32)
        assert set(WeightedKMeans().pick(rows, 2, weights=weighted, seed=0).positions.tolist()) == expected
    assert set(WeightedKMeans().pick(rows, 2, seed=0).positions.tolist()) == {1, 4}
