"""What one forward pass of a few examples shows of a model: the order of calls, the head, the activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Trace:
    """The order of calls, the head and the largest activation, seen in one forward pass."""

    def __init__(self) -> None:
        self.order: dict[str, int] = {}  # module -> when it was first called
        self.calls: dict[str, int] = {}
        self.candidates: list[tuple[str, int]] = []  # linear and 1x1 layers as called, with widths
        self.largest_activation = 0  # bytes per example
        self.output: Tensor

    @classmethod
    def of(cls, model: nn.Module, run: Callable[[], Tensor], size: int) -> Trace:
        """Look at the model while `run` gives its outputs of a batch of `size` examples."""
        trace = cls()
        hooks = []
        for name, module in model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                hooks.append(module.register_forward_pre_hook(trace.entering(name)))
                hooks.append(module.register_forward_hook(trace.leaving(name, size)))
        try:
            trace.output = run()
        finally:
            for hook in hooks:
                hook.remove()
        return trace

    def entering(self, name: str) -> Callable[..., None]:
        """A hook that notes when a module is called."""

        def enter(module: nn.Module, args: Any) -> None:
            self.order.setdefault(name, len(self.order))
            self.calls[name] = self.calls.get(name, 0) + 1

        return enter

    def leaving(self, name: str, size: int) -> Callable[..., None]:
        """A hook that notes how large a module's output is, and whether it could be the head."""

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.layout == torch.strided:
                self.largest_activation = max(self.largest_activation, output.nbytes // size)
            width = width_of_linear(module)
            if width:
                self.candidates.append((name, width))

        return leave

    @property
    def head(self) -> str | None:
        """The last linear layer as wide as the output, so that an auxiliary head called later is not it."""
        widths = set(self.output.shape[1:]) or {1}
        fitting = [name for name, width in self.candidates if width in widths]
        every = fitting or [name for name, _ in self.candidates]
        return every[-1] if every else None


def width_of_linear(module: nn.Module) -> int:
    """Output width of a linear or 1x1 convolution layer, 0 for anything else."""
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and set(module.kernel_size) == {1}:
        return module.out_channels
    return 0
