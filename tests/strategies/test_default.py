"""The default stands for what the confirmation chose, whatever the task, with labels and without."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.inference.runner import ModelRunner
from jostle.strategies.default import default_for, is_linear


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


@pytest.mark.parametrize(
    ("pool", "outputs", "linear"), [(4000, 3, False), (300, 3, False), (4000, 3, True), (5000, 1, False)]
)
def test_its_price_is_told_beforehand(
    pool: int, outputs: int, linear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    call = ModelRunner.call

    def counted(self: ModelRunner, inputs: Tensor) -> object:
        nonlocal seen
        seen += len(inputs)
        return call(self, inputs)

    asked = (net(outputs, linear), torch.randn(pool, 4), 10)
    targets = torch.arange(30) % 3 if outputs == 3 else torch.randn(30, 1)
    labeled = TensorDataset(torch.randn(30, 4), targets)
    plan = strategies.build("default").plan(*asked, labeled=labeled, seed=0)
    monkeypatch.setattr(ModelRunner, "call", counted)
    strategies.build("default").select(*asked, labeled=labeled, seed=0)
    assert seen == pytest.approx(plan.passes, rel=0.1)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_hundred_of_a_hundred_thousand_take_at_most_three_passes(outputs: int) -> None:
    targets = torch.arange(2000) % 3 if outputs == 3 else torch.randn(2000, 1)
    labeled = TensorDataset(torch.randn(2000, 4), targets)
    plan = strategies.build("default").plan(
        net(outputs), torch.randn(100_000, 4), 100, labeled=labeled, seed=0
    )
    assert plan.passes < 3 * 100_000


def test_settings_that_all_strategies_have_reach_it() -> None:
    pool = torch.randn(90, 4)
    seen: list[int] = []

    def head(model: nn.Module, x: Tensor) -> Tensor:
        seen.append(len(x))
        return model.get_submodule("0")(x)

    strategies.build("default", head=head).select(net(1), pool, 7, seed=0)
    assert seen


def test_settings_of_the_default_reach_its_strategies() -> None:
    default = strategies.build("default", candidates_per_pick=3, num_perturbations=4, memory_bytes=10**9)
    noise, linear, typical = map(default.chosen, ("noise-herding", "linear-herding", "typiclust"))
    assert (noise.candidates_per_pick, noise.num_perturbations) == (3, 4)
    assert (linear.selector.candidates, linear.selector.min_candidates) == (3, 200)
    assert {each.memory_bytes for each in (noise, linear, typical)} == {10**9}
    with pytest.raises(ValueError, match="candidates_per_pick must be at least 1; got 0"):
        strategies.build("default", candidates_per_pick=0)
