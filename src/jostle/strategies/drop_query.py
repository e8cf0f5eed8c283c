"""DropQuery (Gupte et al., TMLR 2024): examples whose prediction flips when features are dropped; one per cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate, Strategy
from jostle.inference.context import QueryContext
from jostle.rng import generator
from jostle.rows.geometry import BLOCK_NUMBERS, blocks
from jostle.selectors import Picks
from jostle.strategies.alfa_mix import clustering_estimate, head_function, head_input, nearest_to_centers
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS


@register(
    "drop-query",
    gist="predictions that dropping features flips",
    formula="#{m: argmax head(drop_m(h)) != argmax head(h)} > M / 2; k-means over those, nearest to each center",
    needs=("weights", "probabilities", "features"),
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

    ranges: ClassVar = {"passes": "[1, inf)", "rate": "(0, 1)"}
    serves = CLASS_TASKS
    why_not = "it counts flips of the predicted class of an example; use default"
    passes: int = 3
    """Passes with features dropped, M."""
    rate: float = 0.75
    """Share of an example's features that is dropped in each pass."""

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
        return replace(
            clustering_estimate(context, n, (context.pool,), d),
            rows=size * d * item,
            working=6 * item * min(BLOCK_NUMBERS, size * d),
            extra_work=f"{self.passes + 1} passes of the head",
        )

    def features_and_flips(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Features (n, d), and the share of passes in which each prediction changes (n,)."""
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
