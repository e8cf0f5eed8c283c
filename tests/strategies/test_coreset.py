from typing import Any

import numpy as np
import pytest
import torch
from skactiveml.pool import CoreSet as PeerCoreSet
from torch import nn
from torch.utils.data import TensorDataset

from jostle.inference.context import QueryContext
from jostle.strategies import CoreSet, select


def plain(d: int, c: int = 2) -> nn.Module:
    """A model whose features are its inputs."""
    return nn.Sequential(nn.Identity(), nn.Linear(d, c))


def labeled(x: torch.Tensor) -> TensorDataset:
    return TensorDataset(x, torch.zeros(len(x), dtype=torch.long))


def test_worked_by_hand() -> None:
    pool, known = torch.tensor([[1.0], [2], [10], [11]]), torch.tensor([[0.0]])
    query = select("coreset", plain(1), pool, n=2, labeled=labeled(known), seed=0)
    assert query.indices.tolist() == [
        3,
        1,
    ]  # 11 is farthest from 0, then 2 is 2 away from it and 10 is 1 from 11
    assert query.scores.tolist() == [11, 2]


def test_scikit_activeml_picks_the_same() -> None:
    x = torch.randn(80, 5)
    y = np.full(80, np.nan)
    y[60:] = 0
    peer = PeerCoreSet(random_state=0).query(x.double().numpy(), y, batch_size=15)
    ours = select("coreset", plain(5), x[:60], n=15, labeled=labeled(x[60:]), seed=0)
    assert ours.indices.tolist() == peer.tolist()
    assert (np.diff(ours.scores) <= 0).all()


def test_maps_are_averaged() -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 1)).eval()
    x, known = torch.randn(12, 3, 8, 8), torch.randn(5, 3, 8, 8)
    rows = CoreSet().embed(model, x, labeled=TensorDataset(known, torch.zeros(5, 8, 8)), seed=0)
    torch.testing.assert_close(rows, model[:2](x).mean((2, 3)), rtol=1e-4, atol=1e-6)


def test_needs_a_labeled_set() -> None:
    with pytest.raises(ValueError, match="coreset needs the labeled examples: pass labeled="):
        select("coreset", plain(3), torch.randn(9, 3), n=2)


def test_pool_and_labeled_features_come_from_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    compute = QueryContext.compute

    def counted(self: QueryContext, *args: Any, **options: Any) -> tuple[torch.Tensor, ...]:
        passes.append(options["what"])
        return compute(self, *args, **options)

    monkeypatch.setattr(QueryContext, "compute", counted)
    x = torch.randn(10, 2)
    query = select("coreset", plain(2), x, n=3, labeled=labeled(x[:4]), seed=0)
    assert passes == ["features"]
    assert not set(query.indices.tolist()) & set(range(4))
