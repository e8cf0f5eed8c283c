"""Full float32 while scoring, whatever the process has switched on for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch


class Switch(NamedTuple):
    """Something that lets float32 be rounded."""

    get: Callable[[], Any]
    put: Callable[[Any], object]
    off: tuple[Any, ...]  # its values for full float32, the one to write first

    @classmethod
    def of(cls, place: Any, name: str, *off: Any) -> Switch:
        """An attribute that is one."""
        return cls(partial(getattr, place, name), partial(setattr, place, name), off)

    def read(self) -> Any:
        """Its value; None where PyTorch refuses to read an older switch since a user has set the newer ones."""
        try:
            return self.get()
        except RuntimeError:
            return None


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No TF32, no bfloat16 and no autocast for a while: rounding drowns the movements that a jolt of 1e-3 makes."""
    before = [(switch, value) for switch in switches() if (value := switch.read()) is not None]
    try:
        for switch, _ in before:
            if switch.read() not in switch.off:
                switch.put(switch.off[0])
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for switch, value in before:  # an older one moves newer ones, which are put back after it
            if switch.read() != value:
                switch.put(value)


def switches() -> Iterator[Switch]:
    """The older ones, which models and compiled code read and must find in agreement; then what they do not reach."""
    backends: Any = torch.backends
    yield Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, ("highest",))
    yield Switch.of(backends.cudnn, "allow_tf32", False)
    if hasattr(backends, "fp32_precision"):  # PyTorch 2.9 and later
        cudnn, cpu = backends.cudnn, backends.mkldnn
        for operation in (backends.cuda.matmul, cudnn.conv, cudnn.rnn, cpu.matmul, cpu.conv, cpu.rnn):
            yield Switch.of(operation, "fp32_precision", "ieee", "none")
