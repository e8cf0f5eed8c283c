import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.embeddings.gradients import fisher_roots
from jostle.strategies import select
from jostle.strategies.bait import Fisher, information


def explicit(p: Tensor, h: Tensor) -> Tensor:
    """V, (n, c, c d), spelled out."""
    away = torch.eye(p.shape[1]).double() - p[:, None, :]
    return p.sqrt()[:, :, None] * (away[:, :, :, None] * h[:, None, None, :]).flatten(2)


def plain_bait(pool: Tensor, known: Tensor, n: int, lam: float, forward: int = 2) -> list[int]:
    """The recipe with a fresh inverse for every example of every step."""
    everything = torch.cat([pool, known])
    target = (everything.mT @ everything).mean(0)
    m = len(known)
    base = lam * torch.eye(target.shape[0]).double() + (known.mT @ known).mean(0) * m / (m + n)
    parts = (pool.mT @ pool) * n / (m + n)

    def trace(chosen: list[int]) -> float:
        return float((torch.linalg.inv(base + parts[chosen].sum(0)) @ target).trace())

    chosen: list[int] = []
    for _ in range(min(forward * n, len(pool))):
        left = [i for i in range(len(pool)) if i not in chosen]
        chosen.append(min(left, key=lambda i: trace([*chosen, i])))
    while len(chosen) > n:
        chosen.remove(min(chosen, key=lambda i: trace([j for j in chosen if j != i])))
    return chosen


@pytest.mark.parametrize("n", [1, 4, 9])
def test_picks_equal_those_of_direct_inversion(n: int) -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 3)).double()
    x, known = torch.randn(14, 4).double(), torch.randn(6, 4).double()
    with torch.no_grad():
        roots, known_roots = (explicit(model(rows).softmax(1), rows) for rows in (x, known))
    labeled = TensorDataset(known, torch.zeros(6).long())
    query = select("bait", model, x, n=n, labeled=labeled, regularization=0.3, seed=0)
    assert query.indices.tolist() == plain_bait(roots, known_roots, n, 0.3)


def test_regression_takes_the_features() -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 1)).double()
    x, known = torch.randn(14, 4).double(), torch.randn(6, 4).double()
    query = select("bait", model, x, n=4, labeled=TensorDataset(known, torch.randn(6)), seed=0)
    assert query.indices.tolist() == plain_bait(x[:, None], known[:, None], 4, 1.0)


def test_the_running_state_equals_direct_inversion() -> None:
    p, h = torch.randn(12, 3).double().softmax(1), torch.randn(12, 5).double()
    v, roots = explicit(p, h), fisher_roots(p)
    torch.testing.assert_close(roots.mT @ roots, torch.diag_embed(p) - p[:, :, None] * p[:, None])
    target = information(roots, h)
    torch.testing.assert_close(target, (v.mT @ v).mean(0))
    matrix = torch.eye(15).double()
    fisher = Fisher.of(roots, h, target, torch.linalg.inv(matrix))
    for position, sign in [(3, 1), (7, 1), (3, -1), (0, 1), (7, 1)]:
        fisher.step(position, sign)
        matrix += sign * v[position].T @ v[position]
    inverse = torch.linalg.inv(matrix)
    torch.testing.assert_close(fisher.inverse, inverse)
    torch.testing.assert_close(fisher.inner, v @ inverse @ v.mT)
    torch.testing.assert_close(fisher.outer, v @ inverse @ target @ inverse @ v.mT)
    now = (inverse @ target).trace()
    added = torch.stack([(torch.linalg.inv(matrix + w.T @ w) @ target).trace() for w in v])
    torch.testing.assert_close(fisher.gains(), now - added)
    removed = torch.stack([(torch.linalg.inv(matrix - w.T @ w) @ target).trace() for w in v[[0, 7]]])
    torch.testing.assert_close(fisher.losses()[[0, 7]], removed - now)
