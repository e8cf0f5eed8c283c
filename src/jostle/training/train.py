"""Training from scratch by a recipe, on data that is indexed in batches: no Python runs for single examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn
from torch.optim import Optimizer

from jostle.core import Joined
from jostle.inference.isolation import device_of
from jostle.inference.reader import output_of
from jostle.inference.runner import arguments
from jostle.inputs import Inputs, mapped
from jostle.rng import derive, generator, seeded_globals
from jostle.tasks import Task
from jostle.training.augment import Augmentation

__all__ = ["Indexed", "Recipe", "Schedule", "train"]


class Indexed(Protocol):
    """Anything with a length that gives a batch for a tensor of positions; a tensor is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Tensor, /) -> Any: ...


class Schedule(BaseModel):
    """How the learning rate falls: times `factor` at given epochs or every so many, or linearly to zero."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    factor: float = Field(default=0.1, gt=0, le=1)
    """What the learning rate is multiplied by each time."""
    at: tuple[int, ...] = ()
    """Epochs after which it falls."""
    every: int | None = Field(default=None, ge=1)
    """It falls every so many epochs; None: not so."""
    linear: bool = False
    """It falls with every step, to zero at the end."""

    @model_validator(mode="after")
    def _one_kind(self) -> Schedule:
        """Refuse two kinds at once, since which comes first would be a guess."""
        if (len(self.at) > 0) + (self.every is not None) + self.linear > 1:
            raise ValueError("a schedule has one of: at, every, linear")
        return self

    def rate(self, epoch: int, fraction: float) -> float:
        """Return the factor of the learning rate at an `epoch` and a `fraction` of all steps."""
        if self.linear:
            return 1 - fraction
        falls = epoch // self.every if self.every else sum(epoch >= milestone for milestone in self.at)
        return float(self.factor**falls)


class Recipe(BaseModel):
    """How to train: optimizer, schedule, epochs, batches, augmentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    epochs: int = Field(ge=1)
    """Passes over the labeled set."""
    batch: int = Field(ge=1)
    """Examples per step."""
    optimizer: Literal["adam", "adamw", "sgd"]
    """Which one."""
    lr: float = Field(gt=0)
    """The learning rate at the start."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """That of sgd."""
    weight_decay: float = Field(default=0.0, ge=0)
    """As the optimizer has it."""
    schedule: Schedule = Schedule()
    """How the learning rate falls."""
    augment: Augmentation = Augmentation()
    """What happens to images before a step."""
    balance_small: bool = False
    """Of a set that fits into one batch, the loss is the sum of its classes' means."""
    drop_last: Literal["never", "first cycle", "always"] = "never"
    """Whether a last batch that is not full is left out."""

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> Recipe:
        """Refuse a momentum that would be ignored."""
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum belongs to sgd; the optimizer is {self.optimizer}")
        return self

    def optimizers(self, joined: Joined) -> list[Optimizer]:
        """The optimizer of the trainable weights of a `joined` model, then those of what a strategy added to it."""
        added = joined.optimizers(self.lr)
        theirs = {p for optimizer in added for group in optimizer.param_groups for p in group["params"]}
        weights = [p for p in joined.model.parameters() if p.requires_grad and p not in theirs]
        return [self.optimizer_of(weights), *added]

    def optimizer_of(self, weights: list[nn.Parameter]) -> Optimizer:
        """The optimizer of some `weights`, in one kernel a step: small networks train a third faster."""
        fused = all(p.device.type in ("cpu", "cuda") for p in weights)
        common: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay, "fused": fused}
        if self.optimizer == "sgd":
            return torch.optim.SGD(weights, momentum=self.momentum, **common)
        return (torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW)(weights, **common)

    def batches(self, n: int, rng: torch.Generator, drop_last: bool = False) -> list[Tensor]:
        """The positions of one epoch in random order, a batch at a time.

        A single example at the end goes with the batch before it: BatchNorm cannot normalize it.

        Args:
            n: How many examples there are.
            rng: What the order is drawn with.
            drop_last: Leave out a last batch that is not full.
        """
        parts = list(torch.randperm(n, generator=rng).split(self.batch))
        if len(parts) > 1 and len(parts[-1]) < self.batch:
            if drop_last:
                parts.pop()
            elif len(parts[-1]) == 1:
                parts[-2:] = [torch.cat(parts[-2:])]
        return parts


def train(
    joined: Joined,
    inputs: Indexed,
    targets: Indexed,
    recipe: Recipe,
    task: Task,
    *,
    seed: int,
    first_cycle: bool = True,
    black: tuple[float, ...] = (),
    device: torch.device | str = "cpu",
) -> nn.Module:
    """Train a model in place and return it in eval mode; batches, augmentation and dropout follow the seed.

    Args:
        joined: The model, and what a strategy adds to it: `Joined(model)` adds nothing.
        inputs: Batches by positions.
        targets: The same of what is true.
        recipe: How.
        task: What outputs mean, and so their loss.
        seed: What all draws follow from.
        first_cycle: Whether no selection was made yet, for recipes that treat the first training differently.
        black: What padded crops pad with, for each channel.
        device: Where to.
    """
    model = on(device, joined.model).train()
    optimizers = recipe.optimizers(joined)
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    place = Place.of(model)
    inputs, targets = (place(part) if isinstance(part, Tensor) else part for part in (inputs, targets))
    balance = recipe.balance_small and not joined.learns_losses
    weights = class_weights(targets, recipe) if balance else None
    augment = generator(seed, "augment", device=device)
    with seeded_globals(derive(seed, "dropout"), device):
        for fraction, rate, index in steps(recipe, len(inputs), seed, first_cycle):
            for optimizer, initial in zip(optimizers, rates, strict=True):
                set_rate(optimizer, initial, rate)
                optimizer.zero_grad()
            batch, goals = mapped(place, inputs[index]), place(targets[index])
            batch, goals = recipe.augment(batch, goals, augment, black)
            losses = task.losses(output_of(forward(model, mapped(place, batch))), goals)  # (n,)
            loss = losses.mean() if weights is None else losses @ weights[index]
            (loss + joined.loss(losses, fraction)).backward()
            for optimizer in optimizers:
                optimizer.step()
    return model.eval()


def steps(recipe: Recipe, n: int, seed: int, first_cycle: bool) -> Iterator[tuple[float, float, Tensor]]:
    """For every step: the fraction of training done, what the learning rate is multiplied by, the positions."""
    drop_last = recipe.drop_last == "always" or (recipe.drop_last == "first cycle" and first_cycle)
    rng = generator(seed, "batches")
    for epoch in range(recipe.epochs):
        parts = recipe.batches(n, rng, drop_last)
        for place, index in enumerate(parts):
            fraction = (epoch + place / len(parts)) / recipe.epochs
            yield fraction, recipe.schedule.rate(epoch, fraction), index


@dataclass(frozen=True)
class Place:
    """Device and memory layout of a model's batches."""

    device: torch.device
    """Where to."""
    layout: torch.memory_format
    """How images lie in memory."""

    @classmethod
    def of(cls, model: nn.Module) -> Place:
        """The place of a model."""
        return cls(device_of(model), layout(model))

    def __call__(self, tensor: Tensor) -> Tensor:
        """A tensor brought there."""
        tensor = tensor.to(self.device, non_blocking=True)
        return tensor.contiguous(memory_format=self.layout) if tensor.ndim == 4 else tensor


def on(device: torch.device | str, model: nn.Module) -> nn.Module:
    """A model on the device, in the memory layout that suits it."""
    return model.to(device).to(memory_format=layout(model))  # type: ignore[call-overload, no-any-return]


def layout(model: nn.Module) -> torch.memory_format:
    """channels_last for convolutions, which halves their time on a CPU, unless it would crash there.

    oneDNN writes outside its memory in the backward pass of strided 1x1 convolutions over fewer than 16 channels.
    """
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    fatal = any(
        set(each.kernel_size) == {1} and set(each.stride) != {1} and each.in_channels < 16
        for each in convolutions
    )
    return torch.channels_last if convolutions and not fatal else torch.contiguous_format


def forward(model: nn.Module, inputs: Inputs) -> Any:
    """Return the model's output for a batch."""
    args, kwargs = arguments(model, inputs)
    return model(*args, **kwargs)


def set_rate(optimizer: Optimizer, initial: list[float], rate: float) -> None:
    """Every group of an optimizer at its initial learning rate times `rate`."""
    for group, lr in zip(optimizer.param_groups, initial, strict=True):
        group["lr"] = lr * rate


def class_weights(targets: Indexed, recipe: Recipe) -> Tensor | None:
    """Weights (n,) that sum to 1 in each class, where all examples fit into one batch; None elsewhere."""
    if len(targets) > recipe.batch or not isinstance(targets, Tensor):
        return None
    if targets.ndim != 1 or targets.is_floating_point():
        shape = tuple(targets.shape)
        raise ValueError(
            f"balance_small weighs classes, and targets {shape} are none: set balance_small=false"
        )
    counts = targets.bincount()
    return 1 / (counts[targets] + 1e-5)
