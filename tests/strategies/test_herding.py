"""Herding strategies: features, margins and labels reach the selector, and a model's doubts steer it."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle import strategies
from jostle.rng import generator
from jostle.selectors import Herding


class Known(nn.Module):
    """Features are the first two inputs, logits the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Identity()
        self.head = nn.Linear(5, 3, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(5)[2:])

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def features(_: nn.Module, x: Tensor) -> Tensor:
    return x[:, :2]


@pytest.fixture
def pool() -> Tensor:
    return torch.randn(80, 5)


@pytest.fixture
def labeled() -> TensorDataset:
    return TensorDataset(torch.randn(9, 5), torch.arange(9) % 3)


def margins(pool: Tensor) -> Tensor:
    top = pool[:, 2:].double().softmax(1).topk(2).values
    return 1 - (top[:, 0] - top[:, 1])


@pytest.mark.parametrize(
    ("name", "width", "power"), [("uncertainty-herding", "smallest", 1), ("margin-herding", "median", 2)]
)
def test_margins_weigh_and_labeled_features_cover(
    name: str, width: str, power: int, pool: Tensor, labeled: TensorDataset
) -> None:
    query = strategies.build(name, head=features).select(Known(), pool, 12, labeled=labeled, seed=0)
    expected = Herding(width=width).pick(
        pool[:, :2], 12, centers=labeled.tensors[0][:, :2], weights=margins(pool).pow(power).float(), seed=0
    )
    assert query.indices.tolist() == expected.positions.tolist()
    assert query.scores.tolist() == pytest.approx(expected.scores.tolist(), rel=1e-5)


def test_a_regression_has_no_margins_and_weighs_all_alike(pool: Tensor) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    of = {
        name: strategies.build(name).select(model, pool, 9, seed=0)
        for name in ("max-herding", "margin-herding")
    }
    assert of["max-herding"].indices.tolist() == of["margin-herding"].indices.tolist()


def test_a_sure_region_is_left_alone() -> None:
    sure = torch.cat([torch.randn(50, 2) * 0.1 + 3, torch.tensor([[9.0, 0, 0]]).expand(50, 3)], 1)
    unsure = torch.cat([torch.randn(20, 2) * 0.1 - 3, torch.zeros(20, 3)], 1)
    query = strategies.build("margin-herding", head=features).select(
        Known(), torch.cat([sure, unsure]), 3, seed=0
    )
    assert min(query.indices) >= 50


def test_power_margin_draws_in_proportion_to_one_less_the_margin(pool: Tensor) -> None:
    few = pool[:4]
    expected = margins(few) / margins(few).sum()
    picks = torch.tensor(
        [
            int(strategies.build("power-margin").select(Known(), few, 1, seed=seed).indices[0])
            for seed in range(600)
        ]
    )
    shares = picks.bincount(minlength=4) / 600
    torch.testing.assert_close(shares.double(), expected, rtol=0, atol=4 * 0.5 / 600**0.5)


def finalist(model: nn.Linear, pool: Tensor, labeled: Tensor, n: int, seed: int) -> list[int]:
    """Picks of the finalist of docs/research/default-confirmation.md for a linear model, by its definition."""
    top = model(pool).double().softmax(1).topk(2).values
    weights = (1 - (top[:, 0] - top[:, 1])).float().square().double()
    draws = generator(seed, "herding")
    uniform = torch.rand(len(pool), generator=draws, dtype=torch.float64)
    ranked = (weights / (1 - uniform)).sort(descending=True)  # priority sampling
    targets, threshold = ranked.indices[:4096], ranked.values[4096]
    able = weights.argsort(descending=True)[: max(20 * n, 200)]
    rows, known = (nn.functional.normalize(x.double(), dim=1) for x in (pool, labeled))
    apart = torch.cdist(known, known).fill_diagonal_(torch.inf)
    sharpness = apart.amin(1).median() ** -2

    def kernel(some: Tensor) -> Tensor:
        return (-sharpness * torch.cdist(some, rows[targets]).square()).exp()

    covered, nearness, shares = (
        kernel(known).amax(0),
        kernel(rows[able]),
        weights[targets].clamp(min=threshold),
    )
    picks: list[int] = []
    for _ in range(n):
        best = int(((nearness - covered).clamp(min=0) @ shares).argmax())
        picks.append(int(able[best]))
        covered = torch.maximum(covered, nearness[best])
    return picks


@pytest.mark.parametrize("n", [1, 5, 15])
@pytest.mark.parametrize("seed", [0, 1])
def test_linear_herding_and_the_default_pick_as_the_confirmed_finalist(n: int, seed: int) -> None:
    model, pool, labeled = nn.Linear(8, 4), torch.randn(4500, 8), torch.randn(12, 8)
    with torch.no_grad():
        model.weight.mul_(4)
        expected = finalist(model, pool, labeled, n, seed)
    known = TensorDataset(labeled, torch.arange(12) % 4)
    for name in ("linear-herding", "default"):
        assert jostle.select(name, model, pool, n, labeled=known, seed=seed).indices.tolist() == expected
    arrays = {"features": pool, "probabilities": model(pool).detach().double().softmax(1)}
    known = {"features": labeled, "probabilities": model(labeled).detach().double().softmax(1)}
    assert (
        jostle.select("linear-herding", **arrays, n=n, labeled=known, seed=seed).indices.tolist() == expected
    )
