import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from jostle.embeddings.graph import Graph
from jostle.strategies import CoreGCN, UncertainGCN, select


def dense(features: Tensor) -> Tensor:
    rows = features / features.norm(dim=1, keepdim=True)
    similarity = rows @ rows.T - torch.eye(len(rows), dtype=rows.dtype)
    return similarity / similarity.sum(0) + torch.eye(len(rows), dtype=rows.dtype)


@pytest.mark.parametrize("features", [torch.rand(20, 6).double(), torch.randn(20, 6).double()])
def test_the_graph_is_applied_exactly_without_being_built(features: Tensor) -> None:
    graph, values = Graph.of(features), torch.randn(20, 3).double()
    torch.testing.assert_close(graph.propagated(values), dense(features) @ values)


def test_columns_that_sum_to_nothing_stay_finite() -> None:
    graph = Graph.of(torch.eye(4))  # orthogonal features: every column of X X^T - I is zero
    torch.testing.assert_close(graph.propagated(torch.eye(4)), torch.eye(4))
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 2))
    known = TensorDataset(torch.eye(4)[3:], torch.zeros(1).long())
    assert torch.isfinite(CoreGCN(epochs=3).embed(model, torch.eye(4)[:3], labeled=known, seed=0)).all()


def clusters(n: int, m: int) -> tuple[Tensor, TensorDataset, Tensor]:
    """A pool of two far clusters, the first of which has all labels; and which of the pool is in the second."""
    directions = torch.eye(6)[:2] * 10
    second = torch.arange(n) % 2 == 1
    known = directions[0] + torch.randn(m, 6)
    labeled_kind = known.repeat(1 + n // m, 1)[:n] + 0.01 * torch.randn(n, 6)
    pool = torch.where(second[:, None], directions[1] + torch.randn(n, 6), labeled_kind)
    return pool, TensorDataset(known, torch.zeros(m).long()), second


@pytest.mark.parametrize("name", ["core-gcn", "uncertain-gcn"])
def test_picks_come_from_the_cluster_without_labels(name: str) -> None:
    pool, known, second = clusters(60, 30)
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 1))
    settings = {"margin": 0.0} if name == "uncertain-gcn" else {}
    query = select(name, model, pool, n=10, labeled=known, seed=0, **settings)
    assert second[query.indices].all()
    assert len(set(query.indices.tolist())) == 10


def test_training_by_hand() -> None:
    """Adam on the loss and half the decay times the squared weights, under masks that spare seven in ten."""
    features, known = torch.randn(9, 3).double(), torch.arange(9) >= 6
    settings = CoreGCN(width=5, dropout=0.3, epochs=6, lr=0.02, decay=0.05)
    model = nn.Sequential(nn.Identity(), nn.Linear(3, 2)).double()
    with settings.context(model, features[:6], seed=3, labeled=TensorDataset(features[6:])) as context:
        hidden, scores = settings.trained(Graph.of(features), known, context)
        weights = settings.drawn(features, context.rng("graph weights"))
        draws = context.rng("graph dropout")
    adjacency, rows = dense(features), F.normalize(features)
    w1, b1, w2, b2 = (weight.requires_grad_() for weight in weights)
    adam = torch.optim.Adam([w1, b1, w2, b2], lr=0.02)
    for _ in range(6):
        seen = torch.relu(adjacency @ rows @ w1 + b1)
        spared = torch.rand(9, 5, generator=draws, dtype=torch.float64) >= 0.3
        s = (adjacency @ (seen * spared / 0.7) @ w2 + b2).sigmoid().squeeze(1)
        decay = 0.05 / 2 * sum(weight.square().sum() for weight in (w1, b1, w2, b2))
        adam.zero_grad()
        (decay - s[6:].log().mean() - 1.2 * (1 - s[:6]).log().mean()).backward()
        adam.step()
    expected = torch.relu(adjacency @ rows @ w1 + b1)
    torch.testing.assert_close(hidden, expected.detach())
    torch.testing.assert_close(scores, (adjacency @ expected @ w2 + b2).detach())


def test_scores_are_distances_to_the_margin() -> None:
    pool, known, _ = clusters(20, 8)
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 2))
    core = CoreGCN(epochs=20).embed(model, pool, labeled=known, seed=4)
    uncertain = UncertainGCN(epochs=20, margin=0.3).embed(model, pool, labeled=known, seed=4)
    torch.testing.assert_close(uncertain, -(core[:, 128:].sigmoid() - 0.3).abs())
    published = UncertainGCN(epochs=20).embed(model, pool, labeled=known, seed=4)
    torch.testing.assert_close(published, -(core[:, 128:].sigmoid() - 0.1).abs())
