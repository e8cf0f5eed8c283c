"""The networks of the experiments by name: `models.build("resnet18-cifar", classes=100, seed=0)`.

Each is a plain `nn.Module` that maps a batch to raw outputs (no softmax). The stages of image networks are
called layer1, layer2, ... so that hooks can name them.
"""

import inspect
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from jostle.models.bert import bert_tiny, pretrained_bert
from jostle.models.drn import DRN22
from jostle.models.resnet import resnet18, resnet18_cifar
from jostle.models.small import digits_cnn, mlp, mnist_cnn
from jostle.models.vgg import vgg16, vgg16_bn, vgg19, vgg19_bn
from jostle.plumbing.names import look_up
from jostle.plumbing.settings import check_settings
from jostle.rng import seeded_globals

__all__ = ["build", "describe", "names", "register", "settings"]

Builder = Callable[..., nn.Module]
B = TypeVar("B", bound=Builder)

_builders: dict[str, Builder] = {
    "digits-cnn": digits_cnn,
    "mnist-cnn": mnist_cnn,
    "vgg16": vgg16,
    "vgg16-bn": vgg16_bn,
    "vgg19": vgg19,
    "vgg19-bn": vgg19_bn,
    "resnet18-cifar": resnet18_cifar,
    "resnet18": resnet18,
    "mlp": mlp,
    "drn-d-22": DRN22,
    "bert": pretrained_bert,
    "bert-tiny": bert_tiny,
}


def names() -> list[str]:
    """Every name that `build` knows."""
    return list(_builders)


def describe(name: str) -> str:
    """One line about a network."""
    builder = look_up("model", name, _builders)
    return inspect.cleandoc(builder.__doc__ or name).splitlines()[0]


def settings(name: str) -> dict[str, object]:
    """The settings that a network takes and their defaults; `inspect.Parameter.empty` where there is none."""
    parameters = inspect.signature(look_up("model", name, _builders)).parameters
    return {key: each.default for key, each in parameters.items()}


def build(name: str, *, seed: int | None = None, **values: object) -> nn.Module:
    """A network with fresh weights, on the CPU unless torch's default device says otherwise.

    With a seed the weights depend on it alone, and the global random states stay as they were.
    """
    builder = look_up("model", name, _builders)
    check_settings(name, builder, values)
    if seed is None:
        return builder(**values)
    # on the CPU, so that a seed means the same weights whatever the default device
    with seeded_globals(seed), torch.device("cpu"):
        return builder(**values)


def register(name: str) -> Callable[[B], B]:
    """Decorate a class or function that makes an `nn.Module`, and every command knows it by this name.

    A name that is taken by another builder is an error; running the same definition again replaces it.
    """

    def add(builder: B) -> B:
        taken = _builders.get(name, builder)
        if (taken.__module__, taken.__qualname__) != (builder.__module__, builder.__qualname__):
            raise ValueError(f"the model name {name!r} is taken by {taken.__qualname__}: choose another")
        _builders[name] = builder
        return builder

    return add
