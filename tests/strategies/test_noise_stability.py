"""What the strategy adds to its movements (tests/embeddings) and to k-center (tests/selectors)."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from jostle.selectors import KCenter
from jostle.strategies import NoiseStability, build, deviations, select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()


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
