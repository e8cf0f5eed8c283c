import numpy as np
import pytest
import torch
from torch import nn

from jostle.strategies import ClusterMargin, select
from jostle.strategies.cluster_margin import average_linkage, round_robin


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


def test_a_rare_kind_is_not_crowded_out() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():  # the first feature decides, the second only places examples
        model[1].weight.copy_(torch.tensor([[1.0, 0], [-1, 0]]))
        model[1].bias.zero_()
    crowd = torch.stack([torch.linspace(0.001, 0.02, 20), torch.zeros(20)], 1)
    rare = torch.tensor([[0.03, 50.0], [0.031, 50.0]])
    sure = torch.stack([torch.full((20,), 9.0), torch.full((20,), -50.0)], 1)
    pool = torch.cat([crowd, rare, sure])
    query = select("cluster-margin", model, pool, n=4, spare=5.5, cluster_size=14, seed=0)
    assert {20, 21} <= set(query.indices.tolist())  # least margin alone would take four of the crowd
    assert max(query.indices) < 22
    assert query.indices[0] in (20, 21)  # the smallest cluster comes first


def test_turns_by_hand() -> None:
    cells = torch.tensor([7, 7, 7, 7, 2, 5, 5])
    picks = round_robin(cells, 7, torch.Generator().manual_seed(0))
    assert cells[picks].tolist() == [2, 5, 7, 5, 7, 7, 7]
    assert sorted(picks) == list(range(7))
    firsts = [round_robin(cells, 3, torch.Generator().manual_seed(seed))[2] for seed in range(40)]
    assert set(firsts) == {0, 1, 2, 3}  # a random member


def test_clusters_are_those_of_average_linkage() -> None:
    rows = torch.tensor([[0.0], [1], [10], [11], [30]])
    cells = average_linkage(rows, 3).tolist()
    assert cells[0] == cells[1] != cells[2] == cells[3] != cells[4] != cells[0]


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
