"""What the strategy adds to its movements (tests/embeddings) and to k-center (tests/selectors)."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.strategies import NoiseStability, deviations, select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()


def farthest_first(rows: Tensor, centers: Tensor, n: int) -> list[int]:
    """All distances anew for every pick."""
    picks: list[int] = []
    for _ in range(n):
        picks.append(int(torch.cdist(rows, torch.cat([centers, rows[picks]])).amin(1).argmax()))
    return picks


def test_started_from_the_labelled_set_it_keeps_away_from_what_is_labelled(model: nn.Module) -> None:
    pool, known = torch.randn(40, 5).double(), torch.randn(7, 5).double()
    labeled = TensorDataset(known, torch.zeros(7, dtype=torch.long))
    rows = deviations(model, torch.cat([pool, known]), seed=3)
    query = select("noise-stability", model, pool, 8, start="labeled", labeled=labeled, seed=3)
    assert query.indices.tolist() == farthest_first(rows[:40], rows[40:], 8)
    from_origin = select("noise-stability", model, pool, 8, labeled=labeled, seed=3)
    assert from_origin.indices.tolist() == farthest_first(
        rows[:40], torch.zeros(1, rows.shape[1]).double(), 8
    )
    assert query.indices.tolist() != from_origin.indices.tolist()


def test_a_start_from_the_labelled_set_needs_one(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="pass labeled="):
        NoiseStability(start="labeled").select(model, torch.randn(9, 5).double(), 2)
    with pytest.raises(ValueError, match="start"):
        NoiseStability(start="labels")
