"""Movements against plain forward passes, and their peak memory."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import jostle
from benchmarks.measure import Figure, best_seconds, figure, in_fresh_process, peak_bytes
from jostle import models

PLAIN_SIZES = (16, 32, 64, 128, 256)


def plain_passes(model: nn.Module, pool: Tensor, size: int, passes: int) -> None:
    with torch.inference_mode():
        for _ in range(passes):
            for batch in pool.split(size):
                model(batch)


def deviations() -> list[Figure]:
    """`jostle.deviations` against K + 1 plain eval passes at the best of several batch sizes."""
    return [
        against_plain("mnist-cnn", (1, 28, 28), 1000, 10, 3),
        against_plain("resnet18-cifar", (3, 32, 32), 512, 2, 2),
    ]


def against_plain(name: str, shape: tuple[int, ...], n: int, perturbations: int, repetitions: int) -> Figure:
    """One network's figure."""
    model, pool = models.build(name, seed=0).eval(), torch.randn(n, *shape)
    works: dict[str, Callable[[], Any]] = {
        str(size): partial(plain_passes, model, pool, size, perturbations + 1) for size in PLAIN_SIZES
    }
    works["jostle"] = partial(
        jostle.deviations, model, pool, num_perturbations=perturbations, seed=0, progress=False
    )
    seconds = best_seconds(repetitions, **works)
    ours = seconds.pop("jostle")
    what = f"deviations, {name}, {n} examples, K={perturbations}"
    against = f"{perturbations + 1} plain eval passes at their best batch size"
    return figure(what, ours / min(seconds.values()), against, at_most=1.1)


def memory() -> list[Figure]:
    """Peak memory of `deviations` on 20 million parameters, the model included, in parameters' sizes."""
    told = json.loads(in_fresh_process("benchmarks.engine"))
    allowed = 3 * told["parameters"] + told["rows"] + told["buffer"] + told["activations"]
    what = f"peak memory of deviations, {told['parameters'] // 4 / 1e6:.1f} M parameters, K=30"
    return [figure(what, told["peak"] / allowed, "3 x parameters + rows + buffer + activations", at_most=1.0)]


def measure_memory() -> dict[str, int]:
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(2000, 4000), nn.ReLU(), nn.Linear(4000, 3000), nn.ReLU(), nn.Linear(3000, 10)
    ).eval()
    pool = torch.randn(512, 2000)
    with torch.inference_mode():
        model(pool[:64])
    before = peak_bytes()
    rows = jostle.deviations(model, pool, num_perturbations=30, seed=0, batch_size=64, progress=False)
    parameters = sum(p.nbytes for p in model.parameters())
    return {
        "peak": peak_bytes() - before + parameters,  # the model is part of what is bounded
        "parameters": parameters,
        "rows": rows.nbytes,
        "buffer": pool.nbytes,
        "activations": 64 * (4000 + 3000) * 2 * 4,
    }


if __name__ == "__main__":  # in a process of its own
    print(json.dumps(measure_memory()))
