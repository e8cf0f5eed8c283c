"""Training from scratch by a recipe, and measuring: data are indexed in batches, no Python runs for single examples."""

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
from jostle.inputs import Inputs, arrays, mapped, unshared
from jostle.rng import derive, generator, seeded_globals
from jostle.tasks import VOID, Task

__all__ = ["Augmentation", "Indexed", "Recipe", "Schedule", "evaluate", "outputs_of", "train"]


class Augmentation(BaseModel):
    """Augmentation of a batch of images before a training step; by default none.

    Maps of labels are flipped and cropped with their images; what is padded counts as void.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    flip: bool = False
    """Mirror every other image left to right."""
    crop: int | None = Field(default=None, ge=1)
    """The side of a square that is cut out at random, after padding; None: the whole image."""
    pad: int = Field(default=0, ge=0)
    """Pixels that are added on every side before."""

    def __call__(
        self, inputs: Inputs, targets: Tensor, rng: torch.Generator, black: tuple[float, ...] = ()
    ) -> tuple[Inputs, Tensor]:
        """The batch, flipped and cropped; borders are `black`, a value for each channel, or zero."""
        if not self.flip and self.crop is None:
            return inputs, targets
        if not isinstance(inputs, Tensor) or inputs.ndim != 4:
            raise ValueError(
                "flips and crops are for images (n, channels, height, width): set training.augment"
            )
        window = self.window(inputs, rng)
        images = cut(padded(inputs, self.pad, black), window)
        if targets.ndim == 3:
            targets = cut(padded(targets[:, None], self.pad, (VOID,)), window)[:, 0]
        return images, targets

    def window(self, images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The rows (n, height) and columns (n, width) to be read of each of the padded `images`, drawn with `rng`."""
        n, _, height, width = images.shape
        rows = self._stretch(n, height, rng)
        columns = self._stretch(n, width, rng)
        if self.flip:
            turned = torch.rand(n, generator=rng, device=rng.device) < 0.5
            columns = torch.where(turned[:, None], columns.flip(1), columns)
        return rows, columns

    def _stretch(self, n: int, side: int, rng: torch.Generator) -> Tensor:
        """Return the indices of each image's crop along one side, (n, crop)."""
        whole = side + 2 * self.pad
        size = side if self.crop is None else self.crop
        if size > whole:
            raise ValueError(f"cannot cut {size} pixels from a side of {side} padded by {self.pad}")
        start = torch.randint(whole - size + 1, (n, 1), generator=rng, device=rng.device)
        return start + torch.arange(size, device=rng.device)


def padded(images: Tensor, pad: int, black: tuple[float, ...]) -> Tensor:
    """Images with a border of `black`."""
    if not pad:
        return images
    n, channels, height, width = images.shape
    border = torch.tensor(black or [0.0], dtype=images.dtype, device=images.device).view(1, -1, 1, 1)
    canvas = border.expand(n, channels, height + 2 * pad, width + 2 * pad).clone()
    canvas[:, :, pad : pad + height, pad : pad + width] = images
    return canvas


def cut(images: Tensor, window: tuple[Tensor, Tensor]) -> Tensor:
    """Each image's own rows and columns in one gather; the result is in channels_last."""
    rows, columns = window
    every = torch.arange(len(images), device=images.device)[:, None, None]
    return images[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


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
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    initials = [group["lr"] for group in groups]
    place = Place.of(model)
    inputs, targets = (place(part) if isinstance(part, Tensor) else part for part in (inputs, targets))
    balance = recipe.balance_small and not joined.learns_losses
    weights = class_weights(targets, recipe) if balance else None
    augment = generator(seed, "augment", device=device)
    with seeded_globals(derive(seed, "dropout"), device):
        for fraction, rate, index in steps(recipe, len(inputs), seed, first_cycle):
            for group, initial in zip(groups, initials, strict=True):
                group["lr"] = initial * rate
            for optimizer in optimizers:
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


MICRO_BATCH = 64  # small batches of images or tokens stay in a CPU's cache
VECTORS = 1024  # rows of a table are small, and the cost is in the calls
MICRO_VALUES = 2**21  # of inputs in a micro-batch: an image of 1024 x 2048 comes alone


def evaluate(
    model: nn.Module,
    inputs: Indexed,
    targets: Indexed,
    task: Task,
    *,
    device: torch.device | str = "cpu",
) -> dict[str, float]:
    """The metrics of a task: accuracy and F1, errors of a regression, IoU of a segmentation.

    Args:
        model: What is measured; it is put into eval mode.
        inputs: Batches by positions.
        targets: The same of what is true.
        task: What outputs mean.
        device: Where to.
    """
    return task.metrics(outputs_of(on(device, model).eval(), inputs, targets))


@torch.no_grad()
def outputs_of(model: nn.Module, inputs: Indexed, targets: Indexed) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of a `model` and `targets`, of every micro-batch of `inputs` in order."""
    place = Place.of(model)
    size = micro_batch(inputs)
    for start in range(0, len(inputs), size):
        outputs = output_of(
            forward(model, mapped(lambda part: unshared(place(part), part), rows_from(inputs, start, size)))
        )
        yield outputs.detach(), place(rows_from(targets, start, size))


def rows_from(whole: Indexed, start: int, size: int) -> Any:
    """Some rows from `start` on; those of a tensor are not copied."""
    if isinstance(whole, Tensor):
        return whole[start : start + size]
    return whole[torch.arange(start, min(start + size, len(whole)))]


def micro_batch(inputs: Indexed) -> int:
    """How many examples to test at once, by the size of the first."""
    first = [array[0] for array in arrays(inputs[torch.tensor([0])])]
    most = VECTORS if all(x.ndim == 1 and x.is_floating_point() for x in first) else MICRO_BATCH
    return max(1, min(most, MICRO_VALUES // max(x.numel() for x in first)))
