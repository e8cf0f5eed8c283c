"""Greedy sampling for regression (Wu, Lin and Huang, 2019): far from all labels, in inputs and in predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate, Strategy, feature_estimate
from jostle.inference.context import QueryContext
from jostle.selectors import Picks, first_copies, tie_keys
from jostle.selectors.base import pick_one_by_one
from jostle.strategies.registry import register

PAPER = "Wu et al., Active Learning for Regression Using Greedy Sampling, Information Sciences 2019"


@register(
    "igs",
    gist="far from all labels, in features and in outputs",
    formula="argmax_i min_{l labeled or picked} |h_i - h_l| |f(x_i) - y_l|, a pick having y = f(x)",
    needs=("features", "labeled set"),
    cost="one forward pass over pool and labeled set, then O(n d) per pick",
    paper=PAPER + " (iGS)",
    when="a regression without outliers, in small batches",
)
@dataclass(frozen=True, kw_only=True)
class GreedySampling(Strategy):
    """Take the example that is farthest from all labels by the product of two distances, one after another.
    The first is between features, the second between the predicted and the labeled number.

    The published method labels one at a time and works on inputs; here features take their place, by `head=`, and a
    pick of the same batch stands with its prediction.
    """

    serves = ("regression",)
    why_not = "it compares predicted numbers; use default"
    use_outputs: bool = True
    """Whether the distance between numbers counts; without it this is GSx."""

    def embedding(self, context: QueryContext) -> Embedded:
        """The smallest product of distances to a labeled example, (n,)."""
        rows, values, known, targets = self.sides(context)
        return Embedded(self.nearest(rows, values, known, targets))

    def query(self, context: QueryContext, n: int) -> Picks:
        """Pick the farthest, one by one."""
        with context.timed("embedding"):
            rows, values, known, targets = self.sides(context)
        with context.selecting(n):
            nearest, chosen = self.nearest(rows, values, known, targets), len(known)

            def take(best: int) -> None:
                nonlocal nearest, chosen
                apart = self.product(rows, values, rows[best], values[best])
                nearest, chosen = torch.minimum(nearest, apart) if chosen else apart, chosen + 1

            keys = tie_keys(context.seed, torch.arange(len(rows), device=rows.device))
            copies = first_copies(torch.cat([rows, values], 1))
            return pick_one_by_one(n, lambda: nearest.clone(), take, keys, copies)

    def check_task(self, context: QueryContext) -> None:
        """Raise an error for any task but regression, in the name of the method."""
        context.check_task(self.name if self.use_outputs else "gsx", self.serves, self.why_not)

    def sides(self, context: QueryContext) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features and predictions of the pool, features and numbers of the labeled set, in double precision."""
        pools = context.pools if self.use_outputs or context.labeled is not None else (context.pool,)
        if self.use_outputs:
            context.needs_labeled("igs")
        features, outputs = (rows.double() for rows in context.features_and_outputs(*pools))
        values, size = outputs.reshape(len(outputs), -1), len(context.pool)
        targets = values[size:]
        if self.use_outputs:
            assert context.labeled is not None
            targets = context.labeled.targets().to(values).reshape(targets.shape)
        return features[:size], values[:size], features[size:], targets

    def nearest(self, rows: Tensor, values: Tensor, known: Tensor, targets: Tensor) -> Tensor:
        """The smallest product to a known row, (n,); without any, examples nearest to the mean come first."""
        if not len(known):
            central: Tensor = -(rows - rows.mean(0)).norm(dim=1)
            return central
        found = torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
        for row, value in zip(known, targets, strict=True):
            found = torch.minimum(found, self.product(rows, values, row, value))
        return found

    def product(self, rows: Tensor, values: Tensor, row: Tensor, value: Tensor) -> Tensor:
        """The distance to one row, times that of its number, (n,)."""
        apart: Tensor = (rows - row).norm(dim=1)
        return apart * (values - value).norm(dim=1) if self.use_outputs else apart

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Features and outputs of pool and labeled set from one pass."""
        return feature_estimate(context, 8 * (context.feature_width + 4))


register(
    "gsx",
    gist="far from all labels in features, for a regression",
    idea="Take the example that is farthest from all labeled examples and picks, one after another. Without labels "
    "the first is the one nearest to the mean.",
    formula="argmax_i min_{l labeled or picked} |h_i - h_l|",
    needs=("features",),
    cost="one forward pass over pool and labeled set, then O(n d) per pick",
    paper=PAPER + " (GSx, after Yu and Kim, 2010)",
    when="the first labels of a regression without outliers",
)(partial(GreedySampling, use_outputs=False))
