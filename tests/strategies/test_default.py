"""The default stands for what the arena chose, whatever the task, with labels and without."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.inference.runner import ModelRunner
from jostle.strategies.default import default_for


def net(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, outputs))


@pytest.mark.parametrize(("outputs", "name"), [(3, "noise-herding"), (1, "flip-cover")])
@pytest.mark.parametrize("labeled", [True, False])
def test_it_picks_what_the_chosen_strategy_picks(outputs: int, name: str, labeled: bool) -> None:
    pool = torch.randn(90, 4)
    targets = torch.arange(12) % 3 if outputs == 3 else torch.randn(12, 1)
    labeled = TensorDataset(torch.randn(12, 4), targets) if labeled else None
    picks = [
        strategies.build(each).select(net(outputs), pool, 7, labeled=labeled, seed=0).indices.tolist()
        for each in ("default", name)
    ]
    assert picks[0] == picks[1]
    assert default_for("regression" if outputs == 1 else "classification") == name


@pytest.mark.parametrize(("pool", "outputs"), [(4000, 3), (300, 3), (5000, 1)])
def test_its_price_is_told_beforehand(pool: int, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    call = ModelRunner.call

    def counted(self: ModelRunner, inputs: Tensor) -> object:
        nonlocal seen
        seen += len(inputs)
        return call(self, inputs)

    asked = (net(outputs), torch.randn(pool, 4), 10)
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


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_linear_probe_will_do(outputs: int) -> None:
    query = strategies.build("default").select(nn.Linear(4, outputs), torch.randn(50, 4), 5, seed=0)
    assert len(set(query.indices.tolist())) == 5


def test_settings_of_the_default_reach_its_strategies() -> None:
    default = strategies.build("default", candidates_per_pick=3, num_perturbations=4)
    chosen = [default.chosen(task) for task in ("classification", "regression")]
    assert [each.name for each in chosen] == ["noise-herding", "flip-cover"]
    assert all((each.candidates_per_pick, each.num_perturbations) == (3, 4) for each in chosen)
    with pytest.raises(ValueError, match="candidates_per_pick must be at least 1; got 0"):
        strategies.build("default", candidates_per_pick=0)
