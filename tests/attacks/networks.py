"""Random networks of the kinds that people bring, with inputs and targets that fit them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from attacks.pools import Inputs, size

WORDS = 17  # of the vocabulary; 0 is padding
RETURNS = ("tensor", "tuple", "dict", "object")


@dataclass
class Subject:
    """A network, inputs that fit it, and what its outputs mean."""

    model: nn.Module
    task: str
    classes: int
    inputs: Inputs  # (n, ...) each
    traits: list[str] = field(default_factory=list)  # in words, for the report of a failure

    @property
    def size(self) -> int:
        """How many examples there are."""
        return size(self.inputs)


class Body(nn.Module):
    """A network in the shape of its options; what it returns is wrapped as people wrap it."""

    def __init__(self, net: nn.Module, returns: str, spoils: bool) -> None:
        super().__init__()
        self.net, self.returns, self.spoils = net, returns, spoils

    def forward(self, x: Tensor) -> Any:
        if self.spoils:
            x = x.sub_(0.25)  # what was given changes
        return wrapped(self.net(x), self.returns)


class Reader(nn.Module):
    """Reads tokens with a mask: a class for the whole, or one for each token; its output layer may be its embedding."""

    def __init__(self, width: int, out: int, each: bool, tied: bool, kind: str, returns: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.1, batch_first=True)
        self.mix = (
            nn.GRU(width, width, batch_first=True) if kind == "gru" else nn.TransformerEncoder(layer, 1)
        )
        self.out = nn.Linear(width, WORDS if tied else out, bias=not tied)
        if tied:
            self.out.weight = self.embed.weight
        self.each, self.returns = each, returns

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.embed(input_ids)
        padding = attention_mask == 0
        x = self.mix(x)[0] if isinstance(self.mix, nn.GRU) else self.mix(x, src_key_padding_mask=padding)
        if not self.each:
            mask = attention_mask.unsqueeze(-1).to(x.dtype)
            x = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
        return wrapped(self.out(x), self.returns)


class Counting(nn.Module):
    """A layer whose buffer every pass changes, in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


class Restless(nn.Module):
    """Draws from the global generators in eval mode, as dropout at test time does."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1, training=True)


class Keeping(nn.Module):
    """Keeps what it saw, a lock, and a function."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.say, self.last = threading.Lock(), lambda: None, torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 1
        return self.last


class Selfish(nn.Module):
    """Its copy is itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def __deepcopy__(self, memo: Any) -> Selfish:
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def wrapped(outputs: Tensor, how: str) -> Any:
    if how == "tuple":
        return outputs, None
    return {"dict": {"logits": outputs}, "object": SimpleNamespace(logits=outputs)}.get(how, outputs)


def activation(chance: Random) -> nn.Module:
    inplace = chance.random() < 0.5
    kinds = [nn.ReLU(inplace), nn.GELU(), nn.Tanh(), nn.SiLU(inplace), nn.LeakyReLU(0.1, inplace)]
    return chance.choice(kinds)


def vectors(chance: Random, out: int) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A multilayer perceptron and the shape of an example."""
    width, d = chance.randint(2, 12), chance.randint(1, 9)
    layers: list[nn.Module] = [activation(chance)] if chance.random() < 0.2 else []
    layers += [nn.Linear(d, width)]
    for _ in range(chance.randint(0, 2)):
        layers += [activation(chance), chance.choice([nn.LayerNorm, nn.BatchNorm1d])(width)]
        layers += [nn.Dropout(0.3)] if chance.random() < 0.5 else []
        layers += [odd_layer(chance, width)] if chance.random() < 0.3 else []
        layers += [nn.Linear(width, width)]
    return nn.Sequential(*layers, activation(chance), nn.Linear(width, out)), (d,)


def odd_layer(chance: Random, width: int) -> nn.Module:
    linear = nn.Linear(width, width)
    normed = chance.choice([parametrizations.weight_norm, parametrizations.spectral_norm])(linear)
    return chance.choice([Counting(), Restless(), Keeping(), Selfish(width), normed, normed, nn.RReLU()])


def images(chance: Random, out: int, dense: bool) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A convolutional network and the shape of an example; `dense` ends in a class for each pixel."""
    c, width, side = chance.choice([1, 3]), chance.randint(2, 6), chance.choice([4, 6, 8])
    layers: list[nn.Module] = [nn.Conv2d(c, width, 3, padding=1), activation(chance)]
    if chance.random() < 0.6:
        layers += [nn.BatchNorm2d(width), nn.Dropout2d(0.2)]
    if dense:
        return nn.Sequential(*layers, nn.Conv2d(width, out, 1)), (c, side, side)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if chance.random() < 0.5 else [nn.Flatten()]
    return nn.Sequential(*layers, nn.LazyLinear(out)), (c, side, side)


def subject(chance: Random, task: str, size: int) -> Subject:
    """A random network for a task, with `size` examples."""
    torch.manual_seed(chance.randrange(2**31))
    classes = 2 if task in ("regression", "binary") else chance.randint(2, 5)
    width = 1 if task in ("regression", "binary") else classes
    reads = task == "sequence" or (task in ("classification", "multi-label") and chance.random() < 0.2)
    made = (tokens if reads else numbers)(chance, task, classes, width, size)
    if chance.random() < 0.25:
        dtype = chance.choice([torch.float16, torch.bfloat16, torch.float64])
        made.model.to(dtype)
        made.traits.append(str(dtype))
    freezes = chance.random() < 0.2
    made.traits += ["some weights frozen"] * freezes
    for parameter in made.model.parameters():
        parameter.requires_grad_(not freezes or chance.random() < 0.5)
        if chance.random() < 0.2 and parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    made.model.train(chance.random() < 0.5)
    return made


def numbers(chance: Random, task: str, classes: int, width: int, size: int) -> Subject:
    """A network over vectors or pictures, with examples."""
    pictures = task == "segmentation" or chance.random() < 0.4
    net, shape = images(chance, width, task == "segmentation") if pictures else vectors(chance, width)
    returns, spoils = chance.choice(RETURNS), chance.random() < 0.2
    model, inputs = Body(net, returns, spoils), torch.randn(size, *shape)
    with torch.no_grad():
        model(torch.randn(3, *shape))  # lazy layers and running statistics
    traits = [str(net), f"inputs {tuple(inputs.shape)}", f"returns a {returns}"]
    return Subject(model, task, classes, inputs, [*traits, *["spoils its input"] * spoils])


def tokens(chance: Random, task: str, classes: int, width: int, size: int) -> Subject:
    """A network that reads, with padded sentences."""
    tied, kind = chance.random() < 0.3 and task != "multi-label", chance.choice(["gru", "transformer"])
    d, length, returns = 2 * chance.randint(1, 4), chance.randint(2, 7), chance.choice(RETURNS)
    ids, lengths = torch.randint(1, WORDS, (size, length)), torch.randint(1, length + 1, (size,))
    mask = (torch.arange(length) < lengths[:, None]).long()
    model = Reader(d, width, task == "sequence", tied, kind, returns)
    traits = [f"{kind} reader, width {d}, length {length}, returns a {returns}", *["tied"] * tied]
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    return Subject(model, task, WORDS if tied else classes, inputs, traits)


def targets_for(made: Subject, size: int) -> Tensor:
    """Random labels (size, ...) that fit the task."""
    if made.task == "regression":
        return torch.randn(size)
    if made.task == "multi-label":
        return torch.randint(0, 2, (size, made.classes)).float()
    if isinstance(made.inputs, Tensor) and made.task == "segmentation":
        return torch.randint(0, made.classes, (size, *made.inputs.shape[2:]))
    if isinstance(made.inputs, dict) and made.task == "sequence":
        return torch.randint(0, made.classes, (size, made.inputs["input_ids"].shape[1]))
    return torch.arange(size) % made.classes
