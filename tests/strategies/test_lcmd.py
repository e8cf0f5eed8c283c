import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from jostle.selectors.clusters import lcmd
from jostle.strategies import select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def test_pool_and_labeled_rows_share_their_jolts(model: nn.Module) -> None:
    x = torch.randn(9, 4).double()
    pool = torch.cat([x[:6], x[8:]])  # the last is the only one without a label
    labeled = TensorDataset(x[:8], torch.full((8,), 0.5))
    query = select("lcmd", model, pool, n=3, labeled=labeled, seed=0, sketch=16, batch_size=4)
    assert query.indices[0] == 6
    assert query.scores[0] > 0.01
    assert query.scores[1:] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_copies_of_centers_change_no_pick(offset: float) -> None:
    for seed in range(10):
        draws = torch.Generator().manual_seed(seed)
        rows, centers = (
            torch.randn(300, 33, generator=draws) + offset,
            torch.randn(7, 33, generator=draws) + offset,
        )
        picks = lcmd(rows, 30, centers=centers, seed=0).tolist()
        assert lcmd(rows, 30, centers=centers.repeat(9, 1), seed=0).tolist() == picks
