"""Herding strategies: features, margins and labels reach the selector, and a model's doubts steer it."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle.rng import generator


def finalist(model: nn.Linear, pool: Tensor, labeled: Tensor, n: int, seed: int) -> list[int]:
    """Picks of the finalist of docs/research/default-confirmation.md for a linear model, by its definition."""
    top = model(pool).double().softmax(1).topk(2).values
    weights = (1 - (top[:, 0] - top[:, 1])).float().square().double()
    draws = generator(seed, "herding")
    uniform = torch.rand(len(pool), generator=draws, dtype=torch.float64)
    ranked = (weights / (1 - uniform)).sort(descending=True)  # priority sampling
    targets, threshold = ranked.indices[:4096], ranked.values[4096]
    able = weights.argsort(descending=True)[: max(20 * n, 200)]
    rows, known = (nn.functional.normalize(x.double(), dim=1) for x in (pool, labeled))
    apart = torch.cdist(known, known).fill_diagonal_(torch.inf)
    sharpness = apart.amin(1).median() ** -2

    def kernel(some: Tensor) -> Tensor:
        return (-sharpness * torch.cdist(some, rows[targets]).square()).exp()

    covered, nearness, shares = (
        kernel(known).amax(0),
        kernel(rows[able]),
        weights[targets].clamp(min=threshold),
    )
    picks: list[int] = []
    for _ in range(n):
        best = int(((nearness - covered).clamp(min=0) @ shares).argmax())
        picks.append(int(able[best]))
        covered = torch.maximum(covered, nearness[best])
    return picks


@pytest.mark.parametrize(("n", "seed"), [(1, 0), (15, 1)])
def test_linear_herding_and_the_default_pick_as_the_confirmed_finalist(n: int, seed: int) -> None:
    model, pool, labeled = nn.Linear(8, 4), torch.randn(4500, 8), torch.randn(12, 8)
    with torch.no_grad():
        model.weight.mul_(4)
        expected = finalist(model, pool, labeled, n, seed)
    known = TensorDataset(labeled, torch.arange(12) % 4)
    for name in ("linear-herding", "default"):
        assert jostle.select(name, model, pool, n, labeled=known, seed=seed).indices.tolist() == expected
    arrays = {"features": pool, "probabilities": model(pool).detach().double().softmax(1)}
    known = {"features": labeled, "probabilities": model(labeled).detach().double().softmax(1)}
    assert (
        jostle.select("linear-herding", **arrays, n=n, labeled=known, seed=seed).indices.tolist() == expected
    )
