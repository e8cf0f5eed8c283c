"""Herding strategies: features, margins and labels reach the selector, and a model's doubts steer it."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
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
