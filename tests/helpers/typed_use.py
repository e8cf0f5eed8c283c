"""What a user's own checker sees, looked at by `make check`: right calls pass, and wrong ones do not."""

from dataclasses import dataclass
from typing import assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import jostle
from jostle import Embedded, Embedding, NoiseStability, Picks, Query, QueryContext, Strategy


def right(model: nn.Module, pool: torch.Tensor) -> NDArray[np.int64]:
    strategy = NoiseStability(num_perturbations=10, selector="k-dpp", head="fc", initial_centers="origin")
    query = strategy.select(model, pool, n=5, seed=0, exclude=[1, 2], device="cpu", progress=False)
    assert_type(query, Query)
    assert_type(jostle.select("badge", model, pool, n=5, seed=0, labeled=pool), Query)
    assert_type(jostle.select("entropy", probabilities=pool, n=5), Query)
    assert_type(jostle.compose("features", "k-means++"), Embedding)
    assert_type(jostle.strategies.build("lcmd", sketch=8), Strategy)
    assert_type(strategy.num_perturbations, int)
    return query.indices


def wrong(model: nn.Module, pool: torch.Tensor) -> None:
    NoiseStability(jolt=10)  # type: ignore[call-arg]
    NoiseStability(num_perturbations="many")  # type: ignore[arg-type]
    strategy = jostle.strategies.CoreSet()
    strategy.select(model, pool, n=5, sede=0)  # type: ignore[call-arg]
    strategy.select(model, pool, n=5, seed="0")  # type: ignore[arg-type]
    strategy.select(model, pool)  # type: ignore[call-arg]
    jostle.strategies.AlfaMix(selector="k-center")  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True)
class Ratio(Embedding):
    power: float = 1.0

    def embedding(self, context: QueryContext) -> Embedded:
        best = context.probabilities().topk(2).values
        return Embedded((best[:, 1] / best[:, 0]) ** self.power)


class Overriding(Ratio):
    def query(self, context: QueryContext, n: int) -> Picks:  # type: ignore[misc]  # the composition is final
        raise NotImplementedError
