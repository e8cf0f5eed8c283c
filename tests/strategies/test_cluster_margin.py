import numpy as np
import pytest
import torch
from torch import nn

from jostle.strategies import ClusterMargin, select


def test_without_spare_examples_it_is_least_margin_among_the_very_sure() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2, bias=False))
    model[1].weight.data.copy_(torch.eye(2))
    gaps = torch.linspace(34, 20, 21)  # single precision gives every one of these a margin of 1
    x = torch.stack([gaps, torch.zeros(21)], 1)
    assert (x.softmax(1)[:, 0] == 1).all()
    query = select("cluster-margin", model, x, n=3, spare=1.0, seed=0)
    assert set(query.indices.tolist()) == {20, 19, 18}
    assert select("margin", model, x, n=3).indices.tolist() == [20, 19, 18]
    np.testing.assert_allclose(np.sort(query.scores), 2 * torch.exp(-gaps[-3:].double()), rtol=1e-4)


def test_segmentation_averages_margins_and_regression_is_refused() -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, 1)), torch.randn(9, 3, 6, 6)
    best = model(x).double().softmax(1).topk(2, dim=1).values
    expected = 1 - (best[:, 0] - best[:, 1]).mean((1, 2))
    torch.testing.assert_close(ClusterMargin().embed(model, x, seed=0), expected.detach())
    with pytest.raises(ValueError, match=r"(?s)cluster-margin.*regression.*use default"):
        select("cluster-margin", nn.Linear(5, 1), torch.randn(9, 5), n=2)
    with pytest.raises(ValueError, match=r"9 examples, more than memory_bytes=99: raise"):
        select("cluster-margin", model, x, n=2, memory_bytes=99)
    assert len(select("cluster-margin", model, x[:1], n=1)) == 1
