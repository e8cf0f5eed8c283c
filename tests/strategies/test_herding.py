"""Herding strategies: features, margins and labels reach the selector, and a model's doubts steer it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle import strategies
from jostle.embeddings.deviations import Deviations
from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.rng import generator
from jostle.strategies.default import default_for, is_linear


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


@pytest.mark.parametrize("name", ["noise-herding", "flip-cover"])
def test_only_the_smallest_margins_are_perturbed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    rows = Deviations.rows

    def watched(self: Deviations, context: QueryContext, *pools: Pool) -> Tensor:
        sizes.append(sum(map(len, pools)))
        return rows(self, context, *pools)

    monkeypatch.setattr(Deviations, "rows", watched)
    strategy = strategies.build(name, candidates_per_pick=4)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    labeled = TensorDataset(torch.randn(9, 4), torch.arange(9) % 3)
    strategy.select(model, torch.randn(200, 4), 5, labeled=labeled, seed=0)
    regressor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    known = TensorDataset(torch.randn(9, 4), torch.randn(9, 1))
    strategy.select(regressor, torch.randn(3000, 4), 5, labeled=known, seed=0)
    assert sizes == [4 * 5 + 9, 2048 + 9]


def net(outputs: int, linear: bool = False) -> nn.Module:
    torch.manual_seed(0)
    if linear:
        return nn.Sequential(nn.Flatten(), nn.Linear(4, outputs))
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, outputs))


@pytest.mark.parametrize(
    ("outputs", "linear", "name"),
    [
        (3, False, "noise-herding"),
        (3, True, "linear-herding"),
        (1, False, "typiclust"),
        (1, True, "typiclust"),
    ],
)
@pytest.mark.parametrize("labeled", [True, False])
def test_it_picks_what_the_chosen_strategy_picks(
    outputs: int, linear: bool, name: str, labeled: bool
) -> None:
    pool = torch.randn(250, 4)
    targets = torch.arange(12) % 3 if outputs == 3 else torch.randn(12, 1)
    labeled = TensorDataset(torch.randn(12, 4), targets) if labeled else None
    picks = [
        strategies.build(each).select(net(outputs, linear), pool, 7, labeled=labeled, seed=0).indices.tolist()
        for each in ("default", name)
    ]
    assert picks[0] == picks[1]
    assert default_for("regression" if outputs == 1 else "classification", linear) == name


def test_a_model_is_linear_if_all_parameters_are_of_its_head() -> None:
    class Scaled(nn.Module):
        """Buffers in front of a linear layer, as the labeling page's probe has them."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.ones(4))
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x - self.shift)

    def linear(model: nn.Module, **settings: object) -> bool:
        with strategies.build("default", **settings).context(model, torch.randn(5, 4)) as context:
            return is_linear(context)

    assert linear(nn.Linear(4, 3))
    assert linear(Scaled())
    assert not linear(net(3))
    assert not linear(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)))
    assert not linear(nn.Linear(4, 3), head=lambda model, x: x)  # who knows what it computes


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_hundred_of_a_hundred_thousand_take_at_most_three_passes(outputs: int) -> None:
    targets = torch.arange(2000) % 3 if outputs == 3 else torch.randn(2000, 1)
    labeled = TensorDataset(torch.randn(2000, 4), targets)
    plan = strategies.build("default").plan(
        net(outputs), torch.randn(100_000, 4), 100, labeled=labeled, seed=0
    )
    assert plan.passes < 3 * 100_000


def test_settings_of_the_default_reach_its_strategies() -> None:
    default = strategies.build(
        "default", candidates_per_pick=3, num_perturbations=4, memory_bytes=10**9, head="0"
    )
    noise, linear, typical = map(default.chosen, ("noise-herding", "linear-herding", "typiclust"))
    assert (noise.candidates_per_pick, noise.num_perturbations) == (3, 4)
    assert (linear.selector.candidates, linear.selector.min_candidates) == (3, 200)
    assert {(each.memory_bytes, each.head) for each in (noise, linear, typical)} == {(10**9, "0")}
    with pytest.raises(ValueError, match="candidates_per_pick must be at least 1; got 0"):
        strategies.build("default", candidates_per_pick=0)
