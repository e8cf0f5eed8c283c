import numpy as np
import torch
from skactiveml.pool import CoreSet as PeerCoreSet
from torch import nn
from torch.utils.data import TensorDataset

from jostle.strategies import select


def plain(d: int, c: int = 2) -> nn.Module:
    """A model whose features are its inputs."""
    return nn.Sequential(nn.Identity(), nn.Linear(d, c))


def labeled(x: torch.Tensor) -> TensorDataset:
    return TensorDataset(x, torch.zeros(len(x), dtype=torch.long))


def test_scikit_activeml_picks_the_same() -> None:
    x = torch.randn(80, 5)
    y = np.full(80, np.nan)
    y[60:] = 0
    peer = PeerCoreSet(random_state=0).query(x.double().numpy(), y, batch_size=15)
    ours = select("coreset", plain(5), x[:60], n=15, labeled=labeled(x[60:]), seed=0)
    assert ours.indices.tolist() == peer.tolist()
    assert (np.diff(ours.scores) <= 0).all()
