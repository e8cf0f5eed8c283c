"""A race of jolts on a ResNet-18 for CIFAR-10 that is trained to 80 % or better, where the data is at hand.

`python -m benchmarks.cifar` trains the network on 45,000 images (an hour and a half of one core that multiplies in
bfloat16, three times as long on others; stopped, it goes on from its last epoch) and races over 5,000 others. Early
epochs see small images: they cost a quarter of full ones. `--width 0.5` takes a network of half the width, for a
quarter of the time.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measure import Figure, best_seconds, figure
from benchmarks.racing import Scene, selected
from benchmarks.selection import one_thread
from jostle import datasets, models
from jostle.core import Query
from jostle.datasets import Data
from jostle.embeddings.race import RISK
from jostle.rng import generator
from jostle.tasks import TASKS
from jostle.training.augment import Augmentation
from jostle.training.evaluate import evaluate

TRAINED, CANDIDATES, PICKS = 45_000, 5_000, 100
SIDES = (16,) * 7 + (20,) * 3 + (24,) * 4 + (32,) * 2  # of the images, epoch by epoch
BATCH, RATE, WARM = 128, 0.2, 0.2  # the learning rate rises for the first fifth, then falls to 0
WANTED = 0.8  # accuracy of the network that is measured
KEPT = Path("benchmarks/results")


@dataclass(frozen=True)
class Apprentice:
    """A network on its way, and its optimiser."""

    model: nn.Module
    optimizer: torch.optim.SGD

    @classmethod
    def new(cls, width: float) -> Apprentice:
        """An untrained one."""
        model = models.build("resnet18-cifar", seed=0, width=width)
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return cls(
            model,
            torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=5e-4, nesterov=True),
        )

    def load(self, kept: Path) -> int:
        """Take over what was kept of the same training; the epochs that it saw."""
        if not kept.exists():
            return 0
        state = torch.load(kept)
        if tuple(state["sides"]) != SIDES:
            return 0
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return int(state["epochs"])

    def save(self, kept: Path, epochs: int) -> None:
        """Keep it, whole or not at all."""
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epochs": epochs,
            "sides": SIDES,
        }
        torch.save(state, part)
        part.replace(kept)

    def step(self, images: Tensor, targets: Tensor, fraction: float) -> float:
        """One step, at a fraction of the whole training; its loss."""
        rising, falling = fraction / WARM, (1 - fraction) / (1 - WARM)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min(rising, falling)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=multiplies_bfloat16()):
            loss = F.cross_entropy(self.model(images), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def multiplies_bfloat16() -> bool:
    """Whether this processor does so by itself; others take twice as long for it as for single precision."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def trained(data: Data, width: float, folder: Path = KEPT) -> nn.Module:
    """The network after all epochs, in eval mode."""
    apprentice, kept = Apprentice.new(width), folder / f"resnet18-cifar-{width:g}.pt"
    for epoch in range(apprentice.load(kept), len(SIDES)):
        rng = generator(0, "epoch", epoch)
        augment = Augmentation(flip=True, crop=32, pad=4)
        parts = order(data)[:TRAINED][torch.randperm(TRAINED, generator=rng)].split(BATCH)
        apprentice.model.train()
        losses = list[float]()
        for place, index in enumerate(parts):
            images, targets = augment(data.train.inputs[index], data.train.targets[index], rng, data.black)
            small = F.interpolate(images, SIDES[epoch], mode="area")
            losses.append(apprentice.step(small, targets, (epoch + place / len(parts)) / len(SIDES)))
        apprentice.save(kept, epoch + 1)
        Console().print(
            f"epoch {epoch + 1} of {len(SIDES)}, images of side {SIDES[epoch]}: loss {mean(losses):.3f}"
        )
    return apprentice.model.eval()


def order(data: Data) -> Tensor:
    """The training images in the order in which they are given to training, then to the pool."""
    return torch.randperm(len(data.train), generator=generator(0, "order"))


def accuracy(model: nn.Module, data: Data) -> float:
    """On the test images."""
    inputs, targets = data.test.inputs, data.test.targets
    return float(evaluate(model.eval(), inputs, targets, TASKS["classification"])["accuracy"])


def cifar_ratios(quick: bool = False, width: float = 1.0) -> list[Figure]:
    """Time and passes of a race over those of K + 1 plain passes."""
    with one_thread():
        data: Any = datasets.load("cifar10")
        model = trained(data, width)
        reached = accuracy(model, data)
        pool = data.train.inputs[order(data)[TRAINED:][: 500 if quick else CANDIDATES]]
        scene = Scene(model, pool, "classification")
        picks, found = PICKS * len(pool) // CANDIDATES, dict[str, Query]()
        seconds = best_seconds(
            1,
            clock=time.process_time,
            plain=lambda: found.update(plain=selected(scene, picks, None)),
            raced=lambda: found.update(raced=selected(scene, picks, RISK)),
        )
    passes = found["raced"].passes
    assert passes is not None
    same = found["raced"].indices == found["plain"].indices
    what = f"race, CIFAR ResNet-18 x {width:g} at {reached:.1%}, {len(pool):,} candidates, {picks} picks"
    return [
        figure(what, seconds["raced"] / seconds["plain"], "jolting all of them", at_most=0.2),
        figure("its passes", passes.made / passes.plain, "those of all jolts", at_most=0.2),
        figure("picks that are the same, at the same place", float(same.mean()), "all picks", at_least=1.0),
        figure("accuracy of that network", reached, "its test images", at_least=WANTED),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cifar", description=__doc__)
    parser.add_argument("--width", type=float, default=1.0, help="of the network")
    for each in cifar_ratios(width=parser.parse_args().width):
        Console().print(f"{each['what']}: {each['ratio']:.3f} of {each['against']} ({each['target']})")


if __name__ == "__main__":
    main()
