"""What the strategy adds to its movements (tests/embeddings) and to k-center (tests/selectors)."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.selectors import KCenter
from jostle.strategies import NoiseStability, build, deviations, select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()


def farthest_first(rows: Tensor, centers: Tensor, n: int) -> list[int]:
    """All distances anew for every pick."""
    picks: list[int] = []
    for _ in range(n):
        picks.append(int(torch.cdist(rows, torch.cat([centers, rows[picks]])).amin(1).argmax()))
    return picks


def test_started_from_the_labeled_set_it_keeps_away_from_what_is_labeled(model: nn.Module) -> None:
    pool, known = torch.randn(40, 5).double(), torch.randn(7, 5).double()
    labeled = TensorDataset(known, torch.zeros(7, dtype=torch.long))
    rows = deviations(model, torch.cat([pool, known]), seed=3)
    query = select("noise-stability", model, pool, 8, initial_centers="labeled", labeled=labeled, seed=3)
    assert query.indices.tolist() == farthest_first(rows[:40], rows[40:], 8)
    from_origin = select("noise-stability", model, pool, 8, labeled=labeled, seed=3)
    assert from_origin.indices.tolist() == farthest_first(
        rows[:40], torch.zeros(1, rows.shape[1]).double(), 8
    )
    assert query.indices.tolist() != from_origin.indices.tolist()


def test_relative_movements_are_over_the_length_of_what_moves() -> None:
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4), nn.Linear(4, 1)).double()
    pool = torch.randn(40, 5).double() * torch.logspace(-1, 2, 40).double().unsqueeze(
        1
    )  # of very unequal size
    features = model[:3](pool).detach()
    rows = deviations(model, pool, seed=3) / features.norm(dim=1, keepdim=True)
    query = select("noise-stability-relative", model, pool, 8, seed=3)
    assert query.indices.tolist() == farthest_first(rows, torch.zeros(1, rows.shape[1]).double(), 8)
    assert query.indices.tolist() != select("noise-stability", model, pool, 8, seed=3).indices.tolist()


@pytest.mark.parametrize("selector", ["longest", "uniform", "k-dpp", lambda rows, n: torch.arange(n)])
def test_a_selector_that_ignores_centers_cannot_start_from_the_labeled_set(selector: Any) -> None:
    with pytest.raises(
        ValueError, match=r"initial_centers='labeled' needs a selector .*k-center; \w+ does not"
    ):
        NoiseStability(selector=selector, initial_centers="labeled")
    assert NoiseStability(selector=selector).initial_centers == "origin"


def test_the_ablation_by_length_has_no_start_and_that_by_direction_has_one(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="Longest does not look at them"):
        build("noise-stability-m", initial_centers="labeled")
    pool, known = torch.randn(20, 5).double(), torch.randn(4, 5).double()
    labeled = TensorDataset(known, torch.zeros(4, dtype=torch.long))
    query = select("noise-stability-d", model, pool, 3, initial_centers="labeled", labeled=labeled, seed=3)
    rows = deviations(model, torch.cat([pool, known]), seed=3)
    assert query.indices.tolist() == KCenter(unit=True)(rows[:20], 3, centers=rows[20:]).tolist()
