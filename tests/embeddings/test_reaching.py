"""Parameters that no output depends on stay as they are, and count for nothing; hidden ones move."""

from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
from asking import perturbations_of
from torch import Tensor, nn

import jostle

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))


def base() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3))


class Around(nn.Module):
    """A network beside parts that its output does not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(50, 50)
        self.net = base()
        self.auxiliary = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.ones(7))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out = self.net(x)
        return out, self.auxiliary(out)


class Hidden(nn.Module):
    """A network whose first layer autograd does not see."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.net, self.unused, self.how = base(), nn.Linear(4, 4), how

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.net
        if self.how == "no_grad":
            with torch.no_grad():
                x = first(x)
        elif self.how == "detach":
            x = first(x).detach()
        elif self.how == "data":
            x = nn.functional.linear(x, first.weight.data, first.bias.data)
        else:
            x = x @ torch.from_numpy(first.weight.detach().numpy()).T + first.bias.tolist()[0]
        return nn.Sequential(*rest)(x)


class Experts(nn.Module):
    """The sign of the first input decides which expert an example goes to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.experts = nn.ModuleList([nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)])

    def forward(self, x: Tensor) -> Tensor:
        out = x.new_zeros(len(x), 3)
        for expert, chosen in zip(self.experts, (x[:, 0] < 0, x[:, 0] >= 0), strict=False):
            if chosen.any():
                out = out.index_put((chosen,), expert(x[chosen]))
        return out


def names(model: nn.Module, pool: Tensor = X, **settings: object) -> set[str]:
    return {p.name for p in perturbations_of(model, pool, **settings).moving}


@pytest.mark.parametrize("space", ["probabilities", "logits", "features"])
def test_unused_parameters_change_no_pick_and_no_row(space: str) -> None:
    call = {"n": 20, "seed": 0, "space": space, "head": "net.2"}
    alone = nn.Sequential(OrderedDict(net=base()))
    mine, other = (jostle.select("noise-stability", model, X, **call) for model in (alone, Around()))
    assert mine.indices.tolist() == other.indices.tolist()
    assert mine.scores.tolist() == other.scores.tolist()


def test_only_what_reaches_the_output_moves() -> None:
    assert names(Around()) == {"net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"}
    assert names(Around(), outputs=lambda returned: returned[1]) > {"auxiliary.weight"}


@pytest.mark.parametrize("how", ["no_grad", "detach", "data"])
def test_parameters_that_autograd_does_not_see_move(how: str) -> None:
    assert names(Hidden(how)) == {"net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"}


def test_parameters_that_leave_torch_move() -> None:
    assert names(Hidden("numpy")) == {"net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"}


def test_parts_that_only_some_examples_pass_through_move() -> None:
    pool = X.clone()
    pool[:, 0] = pool[:, 0].abs()
    pool[30, 0] = -1.0  # the first examples never see the first expert
    assert names(Experts(), pool) == {f"experts.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")}


def test_frozen_parameters_move_and_stay_frozen() -> None:
    model = base().requires_grad_(False)
    assert len(names(model)) == 4
    assert not any(p.requires_grad for p in model.parameters())


def test_parameters_that_reach_no_output_alone_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="may not reach"):
        assert not jostle.deviations(Around(), X, parameters="unused.*").any()


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "kind", [torch.jit.script, lambda model: torch.jit.trace(model, torch.randn(2, 3, 6, 6))]
)
def test_torchscript_draws_the_noise_of_the_eager_model(kind: Callable[[nn.Module], nn.Module]) -> None:
    model, pool = convolutions().eval(), torch.randn(30, 3, 6, 6)
    eager, compiled = (
        jostle.deviations(each, pool, seed=0, num_perturbations=3) for each in (model, kind(model))
    )
    torch.testing.assert_close(compiled, eager, rtol=1e-3, atol=1e-4)
