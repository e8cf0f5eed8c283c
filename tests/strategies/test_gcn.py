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


def test_columns_sum_to_two() -> None:
    graph = Graph.of(torch.randn(30, 5).double())
    whole = graph.propagated(torch.eye(30).double())
    torch.testing.assert_close(whole.sum(0), torch.full((30,), 2.0).double())


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


def test_permuting_the_pool_permutes_the_rows() -> None:
    pool, known, _ = clusters(20, 8)
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 2)).double()
    known = TensorDataset(known.tensors[0].double(), known.tensors[1])
    order = torch.randperm(20)
    strategy = CoreGCN(dropout=0.0, epochs=60)
    rows = strategy.embed(model, pool.double(), labeled=known, seed=0)
    permuted = strategy.embed(model, pool.double()[order], labeled=known, seed=0)
    assert rows.shape == (20, 129)
    torch.testing.assert_close(permuted, rows[order])


def test_forward_and_loss_by_hand() -> None:
    settings, features = CoreGCN(width=4, unlabeled_weight=1.2), torch.randn(7, 3).double()
    graph, adjacency = Graph.of(features), dense(features)
    weights = settings.drawn(features, torch.Generator().manual_seed(0))
    rows = F.normalize(features)
    hidden, scores = settings.forward(graph, graph.propagated(rows), weights, None)
    expected = torch.relu(adjacency @ rows @ weights[0] + weights[1])
    torch.testing.assert_close(hidden, expected)
    torch.testing.assert_close(scores, adjacency @ expected @ weights[2] + weights[3])
    known = torch.tensor([False] * 5 + [True] * 2)
    s = scores.sigmoid().squeeze(1)
    by_hand = -s[5:].log().mean() - 1.2 * (1 - s[:5]).log().mean()
    torch.testing.assert_close(settings.loss(scores, known), by_hand)


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


@pytest.mark.parametrize("name", ["core-gcn", "uncertain-gcn"])
def test_the_seed_decides_and_errors_come_first(name: str) -> None:
    pool, known, _ = clusters(20, 8)
    model = nn.Sequential(nn.Identity(), nn.Linear(6, 2))
    first, again = (select(name, model, pool, n=6, labeled=known, seed=5, epochs=10) for _ in range(2))
    assert first.indices.tolist() == again.indices.tolist()
    with pytest.raises(ValueError, match=f"{name} needs the labeled examples"):
        select(name, model, pool, n=6)
    with pytest.raises(
        ValueError, match=r"28 nodes.*more than memory_bytes=1,000: raise memory_bytes.*smaller"
    ):
        select(name, model, pool, n=6, labeled=known, memory_bytes=1000)
