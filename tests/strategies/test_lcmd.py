import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.selectors.lcmd import lcmd
from jostle.strategies import LCMD, select


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def gradients(model: nn.Module, x: Tensor) -> Tensor:
    def gradient(example: Tensor) -> Tensor:
        parts = torch.autograd.grad(model(example[None]).max(), list(model.parameters()))
        return torch.cat([part.flatten() for part in parts])

    return torch.stack([gradient(example) for example in x])


@pytest.mark.parametrize("outputs", [1, 3])
def test_rows_are_a_sketch_of_the_whole_gradient(outputs: int) -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, outputs)).double()
    x = torch.randn(10, 4).double()
    labeled = TensorDataset(x[:3], torch.zeros(3).long())
    task = "regression" if outputs == 1 else "classification"
    rows = LCMD(sketch=800).embed(model, x, labeled=labeled, seed=0, task=task)
    assert rows.shape == (10, 800)
    exact = gradients(model, x)
    scale = exact.square().sum(1).mean()
    torch.testing.assert_close(rows @ rows.T / scale, exact @ exact.T / scale, rtol=0, atol=0.3)


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
