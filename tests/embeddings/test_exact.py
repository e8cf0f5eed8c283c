"""The exact derivative is the limit of small jolts, and says which operator it lacks."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.backends import cuda
from zoo import ZOO, N, mlp

import jostle
from jostle.inference.perturbed import PerturbedRows

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

    @pytest.mark.parametrize("kind", ["recurrent", "weight norm", "old weight norm"])
    def test_an_operator_without_forward_mode_is_named(self, kind: str) -> None:
        make, pool = ZOO[kind]
        with pytest.raises(
            ValueError, match=r"forward mode, which \S*(lstm|rnn|weight_norm)\S* of this model"
        ):
            jostle.deviations(make(), pool(), num_perturbations=1, estimator="jvp")

    def test_a_traced_model_is_refused(self) -> None:
        make, pool = ZOO["traced"]
        with pytest.raises(ValueError, match="TorchScript"):
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
