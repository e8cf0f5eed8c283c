"""What moves: both kinds of noise, patterns and predicates, tied, frozen and integer parameters."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from asking import context_of, perturbations_of
from torch import Tensor, nn
from torch.backends import cuda
from zoo import ZOO, ConvNet, Functional, N, SegNet, mlp

import jostle
from jostle import NoiseStability
from jostle.inference.perturbed import PerturbedRows


class TestWhatMoves:
    def test_layerwise_gives_every_weight_its_own_length_and_leaves_biases(self) -> None:
        model, x = ConvNet(), torch.randn(N, 1, 8, 8)
        jolts = perturbations_of(model, x, noise="layerwise")
        own = {name: p for name, p in model.named_parameters() if not name.endswith("bias")}
        direction = jolts.direction(0)
        assert direction.keys() == own.keys()
        length = math.sqrt(sum(float(p.double().square().sum()) for p in own.values()))
        for name, p in own.items():
            assert float(direction[name].norm()) == pytest.approx(float(p.norm()) / length, rel=1e-4)

    def test_global_noise_shares_by_the_number_of_entries(self) -> None:
        model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 50, bias=False))
        direction = perturbations_of(model, torch.randn(N, 100)).direction(0)
        shares = {name: float(d.square().sum()) for name, d in direction.items()}
        assert shares["0.weight"] == pytest.approx(2 / 3, abs=0.03)

    def test_a_pattern_a_list_and_a_predicate_say_the_same(self) -> None:
        model, x = ConvNet(), torch.randn(N, 1, 8, 8)
        every = [
            jostle.deviations(model, x, num_perturbations=4, seed=0, parameters=which)
            for which in (
                "body.4.*",
                ["body.4.weight", "body.4.bias"],
                lambda name, _: name.startswith("body.4."),
            )
        ]
        assert torch.equal(every[0], every[1])
        assert torch.equal(every[0], every[2])
        assert perturbations_of(model, x, parameters="body.4.*").entries == 8 * 6 * 9 + 8

    def test_nothing_to_move_is_an_error(self) -> None:
        with pytest.raises(ValueError, match=r"do not exist.*nothing-like-this"):
            jostle.deviations(mlp(), torch.randn(N, 6), parameters="nothing-like-this")
        with pytest.raises(ValueError, match="all zero"):
            jostle.deviations(zeroed(), torch.randn(N, 6))

    @pytest.mark.parametrize("kind", ["tied", "shared memory", "tied convolutions"])
    def test_a_tied_tensor_moves_once(self, kind: str) -> None:
        make, pool = ZOO[kind]
        model: Any = make()
        jolts = perturbations_of(model, pool())
        unique = {(p.data_ptr(), p.shape): p.numel() for p in model.parameters()}
        assert jolts.entries == sum(unique.values())
        with jolts.applied(0):
            runner = jolts.context.runner.module
            if kind == "tied":
                assert torch.equal(runner.out.weight, runner.embed.weight)
                assert not torch.equal(runner.out.weight, model.out.weight)
            else:
                assert torch.equal(runner[0].weight, runner[2].weight)
                assert not torch.equal(runner[0].weight, model[0].weight)

    def test_integer_parameters_never_move_and_frozen_ones_do(self) -> None:
        model = Functional()
        assert perturbations_of(model, torch.randn(N, 6)).entries == 30 + 15
        frozen = mlp().requires_grad_(False)
        assert perturbations_of(frozen, torch.randn(N, 6)).entries == sum(
            p.numel() for p in frozen.parameters()
        )

    def test_in_feature_space_the_head_and_what_follows_rest(self) -> None:
        model, x = SegNet(), torch.randn(N, 3, 8, 8)
        names = {p.name for p in perturbations_of(model, x, space="features").moving}
        assert names == {name for name, _ in model.named_parameters() if name.startswith("body.")}

    def test_after_the_call_the_private_copy_is_clean_again(self) -> None:
        model, x = ConvNet(), torch.randn(N, 1, 8, 8)
        with context_of(model, x) as context:
            NoiseStability(num_perturbations=2).embedding(context)
            for mine, own in zip(context.runner.module.parameters(), model.parameters(), strict=True):
                assert torch.equal(mine, own)


def zeroed() -> nn.Module:
    model = nn.Linear(6, 3)
    for p in model.parameters():
        nn.init.zeros_(p)
    return model


K = 4
NO_FORWARD_MODE = ("traced", "recurrent", "weight norm", "old weight norm")
NO_DOUBLE = ("complex",)  # .double() leaves complex weights as they are


class TestExactDerivative:
    @pytest.mark.parametrize("kind", [kind for kind in ZOO if kind not in NO_FORWARD_MODE + NO_DOUBLE])
    def test_it_is_the_limit_of_small_jolts(self, kind: str) -> None:
        make, pool = ZOO[kind]
        model, examples = make().double(), pool()
        if isinstance(examples, Tensor) and examples.is_floating_point():
            examples = examples.double()
        exact = jostle.deviations(model, examples, num_perturbations=K, seed=0, estimator="jvp")
        small = jostle.deviations(model, examples, num_perturbations=K, seed=0, noise_scale=1e-6)
        torch.testing.assert_close(small, exact, rtol=1e-3, atol=1e-3 * float(exact.abs().max()))

    @pytest.mark.parametrize("kind", NO_FORWARD_MODE)
    def test_an_operator_without_forward_mode_is_named(self, kind: str) -> None:
        make, pool = ZOO[kind]
        with pytest.raises(ValueError, match=r"TorchScript|which \S*(lstm|rnn|weight_norm)\S* of this model"):
            jostle.deviations(make(), pool(), num_perturbations=1, estimator="jvp")

    def test_an_interrupt_between_two_derivatives_leaves_every_switch_as_it_was(
        self, monkeypatch: pytest.MonkeyPatch, unchanged: Any
    ) -> None:
        def interrupted(job: PerturbedRows, k: int, *shape: Any) -> None:  # called inside the k-th derivative
            inside.append(switches())
            raise KeyboardInterrupt

        def switches() -> tuple[bool, ...]:
            fast = torch.backends.mha.get_fastpath_enabled()
            return fast, cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()

        monkeypatch.setattr(PerturbedRows, "projection", interrupted)
        model, x, before, inside = mlp(), torch.randn(N, 6), switches(), list[tuple[bool, ...]]()
        check = unchanged(model)
        with pytest.raises(KeyboardInterrupt) as kept:
            jostle.deviations(model, x, num_perturbations=2, estimator="jvp", batch_size=4)
        assert inside == [(False, False, False, True)]
        assert switches() == before  # though the traceback is kept, and all its frames with it
        check()
        del kept


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


@pytest.mark.parametrize("how", ["no_grad", "detach", "data", "numpy"])
def test_parameters_that_autograd_does_not_see_move(how: str) -> None:
    assert names(Hidden(how)) == {"net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"}


def test_parts_that_only_some_examples_pass_through_move() -> None:
    pool = X.clone()
    pool[:, 0] = pool[:, 0].abs()
    pool[30, 0] = -1.0  # the first examples never see the first expert
    assert names(Experts(), pool) == {f"experts.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")}


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
