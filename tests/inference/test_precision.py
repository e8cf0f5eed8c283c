"""Full float32 while scoring: every switch is off inside, readable as before, and back afterwards."""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from zoo import N, mlp

from jostle import NoiseStability
from jostle.inference.isolation import full_float32, switches

X = torch.randn(N, 6, generator=torch.Generator().manual_seed(5))
STATE = """
import os, sys, torch
from torch import backends
from jostle.inference.isolation import full_float32, switches

for set_up in sys.argv[1:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, set_up
        continue
    exec(set_up)
    before = [switch.read() for switch in switches()]
    with full_float32(torch.device("cpu")):
        inside = [switch.read() for switch in switches()]
        for switch, value, was in zip(switches(), inside, before):
            assert value in switch.off or was is value is None, (before, inside)
    after = [switch.read() for switch in switches()]
    assert after == before, (before, after)
    os._exit(0)
"""
WAYS = (
    "torch.set_float32_matmul_precision('medium')",
    "backends.cuda.matmul.allow_tf32 = True",
)
NEWER_WAYS = (
    "backends.fp32_precision = 'bf16'; backends.cuda.matmul.fp32_precision = 'ieee'",  # all but products
    "backends.cudnn.conv.fp32_precision = 'ieee'",  # convolutions of the GPU apart from its recurrences
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each state has a process of its own")
def test_from_every_state_and_back() -> None:
    ways = [*WAYS, *(NEWER_WAYS if hasattr(torch.backends, "fp32_precision") else ())]
    subprocess.run([sys.executable, "-c", STATE, *ways], check=True)


def test_scoring_is_in_full_float32_on_any_gpu_and_cpu() -> None:
    before, newest = [switch.read() for switch in switches()], hasattr(torch.backends, "fp32_precision")
    seen = []

    def look(outputs: Tensor) -> Tensor:
        seen.append(all(switch.read() in (*switch.off, None) for switch in switches()))
        return outputs

    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = True
    try:
        rounding = [switch.read() for switch in switches()]
        assert rounding[0] == "medium"
        assert not newest or "bf16" in rounding
        NoiseStability(num_perturbations=1, outputs=look).select(mlp(), X, n=2, seed=0)
        assert set(seen) == {True}
        assert [switch.read() for switch in switches()] == rounding
    finally:
        torch.set_float32_matmul_precision("highest")
        for switch, value in zip(switches(), before, strict=True):
            if value is not None:
                switch.put(value)


def test_an_error_puts_everything_back() -> None:
    before = [switch.read() for switch in switches()]
    with pytest.raises(KeyError), full_float32(torch.device("cpu")):
        raise KeyError
    assert [switch.read() for switch in switches()] == before
