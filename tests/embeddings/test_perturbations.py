"""What moves: both kinds of noise, patterns and predicates, tied, frozen and integer parameters."""

import math
from typing import Any

import pytest
import torch
from asking import context_of, perturbations_of
from torch import nn
from zoo import ZOO, ConvNet, Functional, N, SegNet, mlp

import jostle
from jostle import NoiseStability


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
