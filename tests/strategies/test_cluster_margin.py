import numpy as np
import torch
from torch import nn

from jostle.strategies import select


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
