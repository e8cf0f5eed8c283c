import torch
from torch import Tensor

from jostle.embeddings.gradients import fisher_roots
from jostle.strategies.bait import Fisher, information


def explicit(p: Tensor, h: Tensor) -> Tensor:
    """V, (n, c, c d), spelled out."""
    away = torch.eye(p.shape[1]).double() - p[:, None, :]
    return p.sqrt()[:, :, None] * (away[:, :, :, None] * h[:, None, None, :]).flatten(2)


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
