from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

Shapes = Callable[[nn.Module, Tensor], dict[str, tuple[int, ...]]]
Entering = Callable[[nn.Module, Tensor, str], Tensor]


@pytest.fixture
def shapes() -> Shapes:
    """The output shape, without n, of every module by name, seen from hooks alone."""

    def look(model: nn.Module, inputs: Tensor) -> dict[str, tuple[int, ...]]:
        seen: dict[str, tuple[int, ...]] = {}
        for name, part in model.named_modules():
            part.register_forward_hook(
                lambda _part, _inputs, output, name=name: seen.update({name: tuple(output.shape[1:])})
            )
        with torch.no_grad():
            model.eval()(inputs)
        return seen

    return look


@pytest.fixture
def entering() -> Entering:
    """What a named module receives."""

    def look(model: nn.Module, inputs: Tensor, name: str) -> Tensor:
        caught: list[Tensor] = []
        model.get_submodule(name).register_forward_pre_hook(lambda _part, args: caught.append(args[0]))
        with torch.no_grad():
            model.eval()(inputs)
        return caught[0]

    return look
