"""Stochastic acquisition draws in the proportions of its definition."""

import pytest
import torch

import jostle
from jostle.selectors import Stochastic, WeightedKMeans


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


def test_it_goes_with_any_score_by_name() -> None:
    strategy = jostle.compose("entropy", selector="stochastic(kind=softrank,beta=2.0)")
    query = strategy.select(torch.nn.Linear(4, 3), torch.randn(30, 4), 5, seed=0)
    assert len(set(query.indices.tolist())) == 5


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
