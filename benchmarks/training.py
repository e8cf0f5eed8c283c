"""Training and evaluation against bare PyTorch loops over preloaded tensors, on one thread."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measure import Figure, best_seconds, figure
from jostle import models
from jostle.core import Joined
from jostle.metrics import evaluate
from jostle.tasks import TASKS
from jostle.training import Recipe, train

BATCH, LR = 96, 1e-3


def bare_training(build: partial[nn.Module], x: Tensor, y: Tensor, epochs: int) -> None:
    model = build().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()


def our_training(build: partial[nn.Module], x: Tensor, y: Tensor, epochs: int) -> None:
    recipe = Recipe(epochs=epochs, batch=BATCH, optimizer="adam", lr=LR)
    train(Joined(build()), x, y, recipe, TASKS["classification"], seed=0)


@torch.no_grad()
def bare_evaluation(model: nn.Module, x: Tensor, y: Tensor, size: int) -> float:
    return sum(
        int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(size), y.split(size), strict=True)
    ) / len(x)


def training_ratios(quick: bool = False) -> list[Figure]:
    """Cost of `train` and `evaluate` over that of a bare loop, for the MNIST network and an MLP."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cases = {"mnist-cnn": (partial(models.build, "mnist-cnn", seed=0), torch.randn(192, 1, 28, 28))}
        cases["mlp"] = (partial(models.build, "mlp", inputs=215, outputs=10, seed=0), torch.randn(192, 215))
        return [
            ratio
            for name, (build, x) in cases.items()
            for ratio in of_network(name, build, x, 5 if quick else 15)
        ]
    finally:
        torch.set_num_threads(threads)


def of_network(name: str, build: partial[nn.Module], x: Tensor, epochs: int) -> list[Figure]:
    y = torch.randint(0, 10, (len(x),))
    epochs = epochs if x.ndim == 4 else 20 * epochs
    works = {
        "ours": partial(our_training, build, x, y, epochs),
        "bare": partial(bare_training, build, x, y, epochs),
    }
    trained = best_seconds(5, **works)
    model, many, labels = build().eval(), x.repeat(20, *[1] * (x.ndim - 1)), y.repeat(20)
    works = {str(size): partial(bare_evaluation, model, many, labels, size) for size in (32, 64, 128, 256)}
    works["ours"] = partial(evaluate, build(), many, labels, "classification", 10)
    tested = best_seconds(5, **works)
    bare = min(value for key, value in tested.items() if key != "ours")
    return [
        figure(f"training, {name}", trained["ours"] / trained["bare"], "a bare loop", at_most=1.1),
        figure(
            f"evaluation, {name}", tested["ours"] / bare, "a bare loop at its best batch size", at_most=1.1
        ),
    ]
