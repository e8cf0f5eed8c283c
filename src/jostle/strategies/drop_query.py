"""DropQuery (Gupte et al., 2024): whose prediction flips when features are dropped, one of each cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate, Strategy
from jostle.inference.context import QueryContext
from jostle.rng import generator
from jostle.rows.geometry import BLOCK_NUMBERS, blocks
from jostle.selectors import Picks
from jostle.strategies.alfa_mix import (
    clustering_room,
    head_function,
    head_input,
    nearest_to_centers,
)
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

WHY = "it counts flips of the predicted class of an example; use default"


@register(
    "drop-query",
    gist="predictions that dropping features flips",
    formula="#{m: argmax head(drop_m(h)) != argmax head(h)} > M / 2; k-means over those, nearest to each center",
    needs=("weights", "probabilities", "features"),
    tasks=CLASS_TASKS,
    cost="one forward pass, M head passes, k-means",
    paper="Gupte et al., Revisiting Active Learning in the Era of Vision Foundation Models, TMLR 2024",
    when="frozen features of a large encoder under a small head",
)
@dataclass(frozen=True, kw_only=True)
class DropQuery(Strategy):
    """An example is worth a label if its prediction changes in most passes with many of its features dropped.
    Of those, k-means over features at unit length gives one for each cluster.

    Where fewer flip than are wanted, those that flip more often come first and ties are drawn. A score is the share
    of passes in which the prediction changed.
    """

    passes: int = 3
    """Passes with features dropped, M."""
    rate: float = 0.75
    """Share of an example's features that is dropped in each pass."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1 or not 0 < self.rate < 1:
            raise ValueError(f"passes is at least 1 and rate in (0, 1); got {self.passes} and {self.rate}")

    def embedding(self, context: QueryContext) -> Embedded:
        """Shares of passes in which predictions changed, (n,)."""
        return Embedded(self.features_and_flips(context)[1])

    def query(self, context: QueryContext, n: int) -> Picks:
        """One of each cluster of those that flip in most passes; then the rest, more flips first."""
        with context.timed("embedding"):
            features, flips = self.features_and_flips(context)
        unstable = (flips > 0.5).nonzero()[:, 0]
        with context.selecting(n):
            picks = unstable[nearest_to_centers(features[unstable], n, context.seed)]
            order = torch.randperm(len(flips), generator=context.rng("drop-query", "fill", device="cpu"))
            order = order.to(flips.device)
            order = order[flips[order].sort(descending=True, stable=True).indices]
            rest = order[~torch.isin(order, picks)]
            picks = torch.cat([picks, rest[: n - len(picks)]])
            return Picks(picks, flips[picks].double())

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Features from one pass, all of them with some dropped, and k-means over those that flip."""
        d, size = math.prod(head_input(context)), len(context.pool)
        item = context.row_type.itemsize
        return Estimate(
            passes=size,
            rows=size * d * item,
            working=6 * item * min(BLOCK_NUMBERS, size * d),
            selecting=0 if n is None else clustering_room(size, d),
            what=f"features of {size:,} examples, {d:,} numbers each, and clusters of them",
            extra_work=f"{self.passes + 1} passes of the head",
        )

    def features_and_flips(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Features (n, d), and the share of passes in which each prediction changes (n,)."""
        context.check_task("drop-query", CLASS_TASKS, WHY)
        head = head_function(context, "drop-query")

        def read(inputs: object) -> tuple[Tensor]:
            return (context.runner.features(inputs).flatten(1),)

        (features,) = context.compute(read, what="features")
        flips = torch.zeros(len(features), dtype=features.dtype, device=features.device)
        draws = [generator(context.seed, "drop-query", turn) for turn in range(self.passes)]
        with torch.no_grad():
            for part in blocks(len(features), per_row=features.shape[1], of=features):
                clean = head(features[part]).argmax(1)
                for luck in draws:
                    kept = torch.rand(features[part].shape, generator=luck) >= self.rate
                    changed = features[part] * kept.to(features) / (1 - self.rate)
                    flips[part] += head(changed).argmax(1) != clean
        return features, flips / self.passes
