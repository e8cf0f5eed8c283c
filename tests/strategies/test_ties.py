"""Copies in a pool are picked about equally often; tests/selectors has the same of every selector."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from jostle import strategies

COPIES, SIZE, SEEDS, PICKS = 4, 12, 24, 2
QUICK = {"noise-stability": {"num_perturbations": 5}, "flip-cover": {"num_perturbations": 5}}


@pytest.mark.parametrize(
    "name",
    ["alfa-mix", "bait", "flip-cover", "noise-stability"],  # three that pick by themselves, one by a selector
)
def test_each_copy_is_picked_about_as_often(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    pool = torch.randn(SIZE, 6).repeat(COPIES, 1)
    labeled = TensorDataset(torch.randn(6, 6), torch.arange(6) % 3)
    strategy, counts = strategies.build(name, **QUICK.get(name, {})), torch.zeros(COPIES)
    for seed in range(SEEDS):
        for position in strategy.select(model, pool, PICKS, labeled=labeled, seed=seed).indices.tolist():
            counts[position // SIZE] += 1
    expected = SEEDS * PICKS / COPIES
    spread = (expected * (1 - 1 / COPIES)) ** 0.5
    assert (counts - expected).abs().max() < 4 * spread, counts.tolist()
