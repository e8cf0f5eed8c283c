"""A ceiling: of twelve batches, the one after which the model is best on the test set, as a strategy to run.

    jostle run benchmarks/protocols/arena-satimage-cold.toml --seeds 5 --out-dir runs/oracle-satimage-cold \
    --strategies "oracle=benchmarks/oracle.py:BestOf(dataset=keel:satimage)"

It knows the labels of the pool and of the test set, so nobody can use it. Each of six strategies proposes a batch from
the whole pool and one from a random half. A model is trained with every batch, and the best model decides, as in BoSS
(best-of-strategies selection). What it gains over random is possible; more may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from jostle import datasets, strategies
from jostle.core import Embedded, Strategy
from jostle.datasets.data import Data, split_columns
from jostle.inference.context import QueryContext
from jostle.rng import generator
from jostle.selectors import Picks

PROPOSERS = ("default", "margin-herding", "alfa-mix", "badge", "margin", "random")


@dataclass(frozen=True, kw_only=True)
class BestOf(Strategy):
    """The best of several batches by the accuracy that each one leads to."""

    dataset: str = "keel:satimage"
    """The data set of the protocol, whose labels it may read."""

    def query(self, context: QueryContext, n: int) -> Picks:
        """Train a model with every proposed batch and return the batch of the most accurate one."""
        return max(proposals(context, n), key=lambda picks: self.accuracy(context, picks))

    def accuracy(self, context: QueryContext, picks: Picks) -> float:
        """Return the test accuracy of a model trained on the labeled examples and a batch."""
        fit, labeled, data = context.options["fit"], context.labeled, load(self.dataset)
        if fit is None or labeled is None:
            raise ValueError("the oracle needs labeled= and fit=, which `jostle run` passes")
        ids = context.pool.positions[picks.positions]
        inputs, targets = split_columns(labeled.dataset)
        known = TensorDataset(
            torch.cat([inputs, as_tensor(data.train.inputs[ids])]),
            torch.cat([targets, data.train.targets[ids]]),
        )
        with torch.enable_grad():
            model = fit(known, 0)
        test = torch.arange(len(data.test))
        predicted = model(data.test.inputs[test]).argmax(1)
        return float((predicted == data.test.targets[test]).double().mean())

    def embedding(self, context: QueryContext) -> Embedded:
        """Raise an error: batches are compared, not examples."""
        raise ValueError("the oracle compares batches and has no row for an example")


def proposals(context: QueryContext, n: int) -> Iterator[Picks]:
    """Yield the batches that each strategy picks from the whole pool and from a random half of it."""
    order = torch.randperm(len(context.pool), generator=generator(context.seed, "half"))
    half = order[: max(n, len(order) // 2)]
    part = replace(context, pool=context.pool.take(half), seed=context.seed + 1)
    for name in PROPOSERS:
        strategy = strategies.build(name)
        yield strategy.resolve(context).query(context, n)
        found = strategy.resolve(part).query(part, n)
        yield found._replace(positions=half[found.positions])


@cache
def load(name: str) -> Data:
    """Return a data set with all of its labels."""
    return datasets.named(name, None, {})


def as_tensor(rows: object) -> Tensor:
    """Return rows of a table; other inputs are an error."""
    if not isinstance(rows, Tensor):
        raise TypeError(f"the oracle reads tables; got inputs of type {type(rows).__name__}")
    return rows
