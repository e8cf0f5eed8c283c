"""The default stands for what the confirmation chose, whatever the task, with labels and without."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.strategies.herding import default_for, is_linear


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
