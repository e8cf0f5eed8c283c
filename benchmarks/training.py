"""Training and evaluation against bare PyTorch loops over preloaded tensors, on one thread."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measure import Figure, best_seconds, figure
from jostle import models
from jostle.core import Joined
from jostle.tasks import TASKS
from jostle.training.train import Recipe, evaluate, train

BATCH, LR = 96, 1e-3


@dataclass(frozen=True)
class Case:
    """A network of the paper, data of its shape, and what a bare loop does with them."""

    name: str
    kind: str
    build: Callable[[], nn.Module]
    x: Tensor
    y: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor, Tensor], Tensor]  # summed over the test set
    epochs: int
    copies: int  # of the data, as a test set

    def bare_training(self) -> None:
        model = self.build().train()
        optimizer = torch.optim.Adam(model.parameters(), lr=LR)
        for _ in range(self.epochs):
            for index in torch.randperm(len(self.x)).split(BATCH):
                optimizer.zero_grad()
                self.loss(model(self.x[index]), self.y[index]).backward()
                optimizer.step()

    def our_training(self) -> None:
        recipe = Recipe(epochs=self.epochs, batch=BATCH, optimizer="adam", lr=LR)
        train(Joined(self.build()), self.x, self.y, recipe, TASKS[self.kind], seed=0)

    @torch.no_grad()
    def bare_evaluation(self, model: nn.Module, x: Tensor, y: Tensor, size: int) -> float:
        return sum(float(self.score(model(a), b)) for a, b in zip(x.split(size), y.split(size), strict=True))

    def ratios(self) -> list[Figure]:
        trained = best_seconds(5, ours=self.our_training, bare=self.bare_training)
        x, y = (part.repeat(self.copies, *[1] * (part.ndim - 1)) for part in (self.x, self.y))
        works: dict[str, Callable[[], Any]] = {
            str(n): partial(self.bare_evaluation, self.build().eval(), x, y, n)
            for n in (32, 64, 128, 256, 1024)
        }
        works["ours"] = partial(evaluate, self.build(), x, y, TASKS[self.kind])
        tested = best_seconds(5, **works)
        ours = tested.pop("ours")
        ratio = trained["ours"] / trained["bare"]
        return [
            figure(f"training, {self.name}", ratio, "a bare loop", at_most=1.1),
            figure(
                f"evaluation, {self.name}",
                ours / min(tested.values()),
                "a bare loop at its best batch size",
                at_most=1.1,
            ),
        ]


def cases() -> list[Case]:
    images, classes = torch.randn(192, 1, 28, 28), torch.randint(0, 10, (192,))
    tables, numbers = torch.randn(192, 215), torch.randn(192, 1)
    return [
        Case("mnist-cnn", "classification", partial(models.build, "mnist-cnn", seed=0), images, classes,
             F.cross_entropy, lambda p, y: (p.argmax(1) == y).sum(), 15, 20),
        Case("mlp", "regression", partial(models.build, "mlp", inputs=215, seed=0), tables, numbers,
             F.mse_loss, lambda p, y: (p - y).abs().sum() + (p - y).square().sum(), 300, 200),
    ]  # fmt: skip


def training_ratios() -> list[Figure]:
    """Cost of `train` and `evaluate` over that of a bare loop."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [ratio for case in cases() for ratio in case.ratios()]
    finally:
        torch.set_num_threads(threads)
