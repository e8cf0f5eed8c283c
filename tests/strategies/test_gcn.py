import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from jostle.embeddings.features import Graph
from jostle.strategies import CoreGCN


def dense(features: Tensor) -> Tensor:
    rows = features / features.norm(dim=1, keepdim=True)
    similarity = rows @ rows.T - torch.eye(len(rows), dtype=rows.dtype)
    return similarity / similarity.sum(0) + torch.eye(len(rows), dtype=rows.dtype)


def test_columns_that_sum_to_nothing_stay_finite() -> None:
    graph = Graph.of(torch.eye(4))  # orthogonal features: every column of X X^T - I is zero
    torch.testing.assert_close(graph.propagated(torch.eye(4)), torch.eye(4))
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 2))
    known = TensorDataset(torch.eye(4)[3:], torch.zeros(1).long())
    assert torch.isfinite(CoreGCN(epochs=3).embed(model, torch.eye(4)[:3], labeled=known, seed=0)).all()


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
