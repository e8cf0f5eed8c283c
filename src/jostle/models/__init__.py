"""Networks by name: `models.build("resnet18-cifar", classes=100, seed=0)`.

Each is a plain `nn.Module` that maps a batch to raw outputs (no softmax). The stages of image networks are
called layer1, layer2, ... so that hooks can name them.
"""

from __future__ import annotations

import torch
from torch import nn

from jostle.models.networks import (
    DRN22,
    digits_cnn,
    mlp,
    mnist_cnn,
    resnet18,
    resnet18_cifar,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)
from jostle.models.pretrained import bert_tiny, pretrained_bert
from jostle.rng import seeded_globals
from jostle.utils.registry import Entry, Registry

__all__ = ["build", "describe", "names", "register", "settings"]

REGISTRY: Registry[nn.Module, Entry] = Registry(
    "model", "jostle.models", Entry, makes=(nn.Module, "a torch.nn.Module")
)
names, register = REGISTRY.names, REGISTRY.register
REGISTRY.enter(
    {
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
)


def describe(name: str) -> str:
    """One line about a network, by its `name`."""
    return REGISTRY.entry(name).line


def settings(name: str) -> dict[str, object]:
    """The settings that the network of this `name` takes, and their defaults; `inspect.Parameter.empty` where there is
    none.
    """
    return REGISTRY.entry(name).settings


def build(name: str, *, seed: int | None = None, **values: object) -> nn.Module:
    """A network with fresh weights, on the CPU unless torch's default device says otherwise.

    Args:
        name: A name of the registry, or `file.py:name`, a function or class of your own that makes a network.
        seed: The weights depend on it alone, and the global random states stay as they were; None: as the global
            generator goes.
        values: Settings of the network, such as `classes=10`.
    """
    if seed is None:
        return REGISTRY.build(name, values)
    # on the CPU, so that a seed means the same weights whatever the default device
    with seeded_globals(seed), torch.device("cpu"):
        return REGISTRY.build(name, values)
