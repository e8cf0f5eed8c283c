"""Digits of which two kinds in ten belong to no class: an example of these costs a label and teaches nothing.

    jostle run benchmarks/protocols/strangers-optdigits.toml --seeds 10

`Known` hands a strategy only the labeled examples with a class; `fit` trains on these alone. The test set has none of
the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from jostle import datasets, strategies
from jostle.core import Embedded, Joined, Strategy
from jostle.datasets.data import Data, as_dataset, split_columns, take_rows
from jostle.experiments import load_protocol
from jostle.inference.context import Options, QueryContext
from jostle.rng import derive
from jostle.selectors import Picks
from jostle.tasks import TASKS
from jostle.training.train import train

CLASSES = 8  # of ten; the answer to an example of the last two is "none of these", which is number 8
BASE = "benchmarks/protocols/arena-optdigits.toml"


def optdigits() -> Data:
    """Handwritten digits as 64 numbers (KEEL optdigits): 8 and 9 belong to no class."""
    return with_strangers("keel:optdigits")


def penbased() -> Data:
    """Digits by the strokes of a pen (KEEL penbased): 8 and 9 belong to no class."""
    return with_strangers("keel:penbased")


def with_strangers(name: str) -> Data:
    """Make the last classes one that is called none, and leave them out of the test set."""
    data = datasets.named(name, None, {})
    train, test = torch.as_tensor(data.train.targets), torch.as_tensor(data.test.targets)
    kept = (test < CLASSES).nonzero().flatten()
    return replace(
        data,
        name=f"{data.name}-strangers",
        classes=(*data.classes[:CLASSES], "none of these"),
        train=replace(data.train, targets=train.clamp(max=CLASSES)),
        test=replace(data.test, inputs=take_rows(data.test.inputs, kept), targets=test[kept], names=()),
    )


def with_a_class(dataset: Any) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of the labeled examples that have a class."""
    inputs, targets = split_columns(dataset)
    return inputs[targets < CLASSES], targets[targets < CLASSES]


def fit(dataset: Any, seed: int, model: nn.Module) -> nn.Module:
    """Train as the base of all arenas does, on the examples that have a class."""
    recipe = load_protocol(BASE).training
    if recipe is None:
        raise ValueError(f"{BASE} has no table [training]")
    return train(
        Joined(model), *with_a_class(dataset), recipe, TASKS["classification"], seed=derive(seed, "training")
    )


@dataclass(frozen=True, kw_only=True)
class Known(Strategy):
    """A strategy of the registry that sees only labeled examples with a class."""

    strategy: str = "default"
    """Its name."""

    def create_context(self, model: nn.Module, pool: Any, options: Options) -> QueryContext:
        """Leave out the labeled examples without a class."""
        known = as_dataset(*with_a_class(options["labeled"]))
        return super().create_context(model, pool, {**options, "labeled": known})

    def resolve(self, context: QueryContext) -> Strategy:
        """Return the strategy that answers."""
        return strategies.build(self.strategy).resolve(context)

    def query(self, context: QueryContext, n: int) -> Picks:
        """Choose as the strategy does."""
        return self.resolve(context).query(context, n)

    def embedding(self, context: QueryContext) -> Embedded:
        """Return the rows of the strategy."""
        return self.resolve(context).embedding(context)
