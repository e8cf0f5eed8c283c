"""How much goes through a network for each example: what weights are multiplied with, seen in a forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def activity(module: nn.Module) -> Iterator[list[Tensor]]:
    """Squared lengths of what each layer with weights is given, (n,) for each call, filled in as the model runs.

    Weights that are nudged move a layer's output in proportion to the length of its input. What is not seen, as in
    TorchScript or where a layer's rows are not the examples, is not counted.
    """
    seen: list[Tensor] = []

    def enter(layer: nn.Module, args: Any) -> None:
        seen.extend(
            torch.linalg.vector_norm(given, dim=tuple(range(1, given.ndim))).double().square()
            for given in args[:1]
            if isinstance(given, Tensor) and given.is_floating_point() and given.ndim > 1
        )

    layers = [layer for layer in module.modules() if any(True for _ in layer.parameters(recurse=False))]
    hooks = [
        layer.register_forward_pre_hook(enter)
        for layer in layers
        if not isinstance(layer, torch.jit.ScriptModule)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
