"""The floating parameters of a model: the user's own values beside the private copy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from jostle.inference.isolation import memory
from jostle.inference.runner import ModelRunner


@dataclass(frozen=True)
class Parameter:
    """A tensor of the private copy beside the user's own parameter, which holds the clean values."""

    names: list[str]  # several where distinct parameters share memory
    aliases: list[str]  # these, and all other names of the same parameters
    copy: Tensor
    own: Tensor

    @property
    def clean(self) -> Tensor:
        """The user's own values."""
        return self.own.detach()

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


def before_head(runner: ModelRunner, parameter: str) -> bool:
    """Whether a parameter can move the features: the head's and those of layers after it cannot."""
    if callable(runner.given_head):
        return True
    order, owner = runner.order, parameter.rpartition(".")[0]
    in_head = owner == runner.head or owner.startswith(runner.head + ".")
    return not in_head and order.get(owner, -1) < order[runner.head]


def parameters(runner: ModelRunner) -> list[Parameter]:
    """Floating parameters, each tensor once however often it is tied."""
    own = dict(runner.original.named_parameters(remove_duplicate=False))
    objects = dict(runner.module.named_parameters())
    found: dict[Any, Parameter] = {}
    for name, parameter in runner.module.named_parameters(remove_duplicate=False):
        if parameter.is_floating_point() or parameter.is_complex():
            tied = found.setdefault(memory(own[name]), Parameter([], [], parameter.detach(), own[name]))
            tied.aliases.append(name)
            if name in objects:
                tied.names.append(name)
    return list(found.values())
