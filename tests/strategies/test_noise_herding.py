"""Jolt herding against its formula, written out for a small pool."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import compose, strategies


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


@pytest.fixture
def pool() -> Tensor:
    return torch.randn(120, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def labeled() -> TensorDataset:
    return TensorDataset(torch.randn(9, 4, generator=torch.Generator().manual_seed(2)), torch.arange(9) % 3)


def unit_movements(model: nn.Module, inputs: Tensor) -> Tensor:
    rows = compose("deviations", num_perturbations=20, space="logits").embed(model, inputs, seed=0)
    assert isinstance(rows, Tensor)
    moved = rows.double().view(len(inputs), 20, 3)
    moved = (moved - moved.mean(2, keepdim=True)).flatten(1)
    return moved / moved.norm(dim=1, keepdim=True)


def unsureness(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        top = model(inputs).double().softmax(1).topk(2).values
    return 1 - (top[:, 0] - top[:, 1])


def test_picks_and_gains_are_those_of_the_formula(
    model: nn.Module, pool: Tensor, labeled: TensorDataset
) -> None:
    query = strategies.build("noise-herding", candidates_per_pick=5).select(
        model, pool, 6, labeled=labeled, seed=0
    )
    kept = unsureness(model, pool).topk(30).indices.sort().values
    weights = unsureness(model, pool)[kept] ** 2
    known = unit_movements(model, labeled.tensors[0])
    rows = unit_movements(model, pool[kept])
    width = torch.cdist(known, known).fill_diagonal_(torch.inf).amin(1).median()
    kernel = (-((torch.cdist(torch.cat([rows, known]), rows) / width) ** 2)).exp()  # (30 + 9, 30)
    covered = kernel[30:].amax(0)
    for index, score in zip(query.indices.tolist(), query.scores.tolist(), strict=True):
        gains = (kernel[:30] - covered).clamp(min=0) @ weights
        best = int(gains.argmax())
        assert index == int(kept[best])
        assert score == pytest.approx(float(gains[best]), rel=1e-3)
        covered = torch.maximum(covered, kernel[best])


def test_only_the_smallest_margins_are_jolted(
    model: nn.Module, pool: Tensor, labeled: TensorDataset, jolted: list[int]
) -> None:
    strategies.build("noise-herding", candidates_per_pick=4).select(model, pool, 5, labeled=labeled, seed=0)
    regressor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    strategies.build("noise-herding", candidates_per_pick=4).select(
        regressor, torch.randn(3000, 4), 5, seed=0
    )
    assert jolted == [4 * 5 + 9, 2048]
