"""FlipCover and DropQuery: chances against draws, steps against accuracies, flips against a head worked by hand."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.strategies.flip_cover import bearable, flip_chances


def linear_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def test_chances_are_those_of_gaussian_noise_on_the_nearest_gap() -> None:
    logits = torch.tensor([[2.0, 0.0, -9.0], [0.1, 0.0, -9.0]], dtype=torch.float64)
    moved = torch.zeros(2, 4000, 3, dtype=torch.float64)
    moved[:, :, 0] = torch.randn(2, 4000, dtype=torch.float64)  # only the winner moves
    chances = flip_chances(logits, moved, step=1.5)
    noise = 1.5 * torch.randn(200_000, dtype=torch.float64)
    for row, gap in enumerate((2.0, 0.1)):
        assert chances[row] == pytest.approx(float((noise.abs() > gap).double().mean()), abs=0.02)


def test_the_step_is_what_the_labeled_set_bears() -> None:
    logits = torch.randn(400, 3, dtype=torch.float64)
    targets = logits.argmax(1)
    moved = torch.randn(400, 20, 3, dtype=torch.float64)

    step = bearable(logits, moved, targets)

    def accuracy(of: float) -> float:
        both = torch.stack([logits[:, None] + of * moved, logits[:, None] - of * moved])
        return float((both.argmax(3) == targets[:, None]).double().mean())

    assert accuracy(step) >= 0.95 > accuracy(step * 1.05)


def test_sure_examples_are_not_picked_and_copies_are_apart() -> None:
    torch.manual_seed(1)
    model = linear_net()
    unsure = torch.randn(6, 4) * 0.01
    pool = torch.cat([unsure.repeat_interleave(5, 0), 30 * torch.randn(40, 4)])
    with torch.no_grad():
        model[2].weight.mul_(20)
        labels = model(pool[30:50]).argmax(1)
    query = strategies.build("flip-cover").select(
        model, pool, 5, labeled=TensorDataset(pool[30:50], labels), seed=0
    )
    kept = query.indices[query.indices < 30] // 5
    assert len(set(kept.tolist())) == len(kept)


def test_only_the_smallest_margins_are_jolted(jolted: list[int]) -> None:
    labeled = TensorDataset(torch.randn(9, 4), torch.arange(9) % 3)
    strategies.build("flip-cover", candidates_per_pick=4).select(
        linear_net(), torch.randn(200, 4), 5, labeled=labeled, seed=0
    )
    assert jolted == [4 * 5 + 9]


def test_drop_query_counts_flips_of_the_head() -> None:
    # two features decide two classes: dropping one of them flips what leans on both
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    pool = torch.tensor([[3.0, 4.0], [-1.0, 2.0], [5.0, -4.0], [-2.0, -2.0]])
    rows = strategies.build("drop-query", passes=400, rate=0.5).embed(model, pool, seed=0)
    # kept or dropped by a fair coin each: flips where a kept part alone changes the sign; all dropped is class 0
    assert rows.tolist() == pytest.approx([0.0, 0.25, 0.25, 0.25], abs=0.08)


def test_drop_query_takes_one_of_each_cluster_then_fills_by_flips() -> None:
    torch.manual_seed(0)
    model = linear_net()
    pool = torch.randn(50, 4)
    strategy = strategies.build("drop-query")
    query = strategy.select(model, pool, 50, seed=0)
    flips = strategy.embed(model, pool, seed=0)
    assert isinstance(flips, Tensor)
    unstable = int((flips > 0.5).sum())
    rest = query.scores[unstable:].tolist()
    assert rest == sorted(rest, reverse=True)
    assert sorted(query.indices.tolist()) == list(range(50))
