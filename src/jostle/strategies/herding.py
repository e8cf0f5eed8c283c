"""Herding: greedy coverage by a kernel, of features or of deviations under noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.embeddings.features import Features
from jostle.embeddings.uncertainty import small_margin
from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.selectors import Herding, Picks, max_herding, narrow_herding
from jostle.strategies.candidates import Shortlist, Shortlisting, deviations
from jostle.strategies.registry import register

PAPER = "Bae et al., Uncertainty Herding: One Active Learning Method for All Label Budgets, ICLR 2025"
COST = (
    "one forward pass over pool and labeled set, then kernels of at most 4,096 examples "
    "with 20 candidates for each pick"
)
GAIN = (
    "argmax_i sum_j w_j [k(i, j) - max_{l labeled or picked} k(l, j)]_+, repeated; k = exp(-(d / width)^2), "
)


@register(
    "max-herding",
    gist="a cover of the pool, by a kernel on features",
    formula=GAIN + "w = 1, h at unit length",
    needs=("features",),
    cost=COST,
    paper=PAPER,
    when="the very first labels, before there is a model to be unsure: good features from elsewhere, by head=",
)
@dataclass(frozen=True, kw_only=True)
class MaxHerding(Features):
    """Every example should have a labeled one near it, by a kernel on features of unit length.
    Each pick adds most to that, over all examples together, so outliers count for what they are: one example.
    """

    selector: Choice = max_herding


@register(
    "uncertainty-herding",
    gist="a cover of the pool, weighted by uncertainty",
    formula=GAIN + "w = 1 - (p_(1) - p_(2)), h at unit length",
    needs=("probabilities", "features"),
    cost=COST,
    paper=PAPER,
    when="any number of labels: with few it covers the pool, with many it goes where classes meet",
)
@dataclass(frozen=True, kw_only=True)
class UncertaintyHerding(Embedding):
    """Herding in which an example counts as much as the model is unsure of it.
    Picks lie in the midst of what is uncertain, and apart from each other and from what is labeled.

    A regression has no margins: all examples count alike, which is max-herding. Probabilities are taken as they are,
    where the paper scales their temperature first.
    """

    ranges: ClassVar = {"power": "(0, inf)"}
    shardable = True

    selector: Choice = narrow_herding
    power: float = 1.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of pool and labeled set, and the weights of the pool's examples."""
        if not context.task.has_classes:
            return Embedded(*context.split(context.features(*context.pools)))
        features, margins = context.features_and_scores(
            small_margin, *context.pools, what="features and margins"
        )
        weights = margins[: len(context.pool)].pow(self.power)
        return Embedded(*context.split(features), weights.to(features.dtype))

    def embedding_with(self, context: QueryContext, scores: Tensor) -> Embedded:
        """Features of pool and labeled set, weighted by `scores` of the user's own in place of margins."""
        return Embedded(*context.split(context.features(*context.pools)), scores)

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features and margins of pool and labeled set from one pass."""
        return feature_estimate(context, extra=8)  # and a weight


register(
    "margin-herding",
    gist="uncertainty herding with squared margins",
    idea="Uncertainty herding with squared margins and a kernel as wide as labeled examples lie apart. Picks lie in "
    "the midst of what is most uncertain, each for a region of its own.",
    formula=GAIN + "w = (1 - (p_(1) - p_(2)))^2, width the median distance of a labeled example to the next",
    needs=("probabilities", "features"),
    cost=COST,
    paper=PAPER,
    when="any number of labels and any size of batch",
)(partial(UncertaintyHerding, power=2.0, selector=Herding(width="median")))


FEW_CANDIDATES = Herding(width="median", min_candidates=200)
LINEAR_COST = (
    "one forward pass over pool and labeled set, then kernels of at most 4,096 examples with the max(20 n, 200) "
    "smallest margins"
)


@register(
    "linear-herding",
    gist="noise herding of a linear model: a cover of what is unsure, by features",
    formula=GAIN
    + "h at unit length; w = (1 - (p_(1) - p_(2)))^2; i among the max(20 n, 200) smallest margins, j among up to 4,096 "
    "of the pool drawn by w; width the median distance of a labeled example to the next",
    needs=("probabilities", "features"),
    cost=LINEAR_COST,
    paper="of this package: docs/research/default-confirmation.md, after " + PAPER,
    when="linear probes on frozen embeddings, any number of labels and any size of batch",
)
@dataclass(frozen=True, kw_only=True)
class LinearHerding(UncertaintyHerding):
    """Margin herding with fewer candidates: each pick is one of the most uncertain examples, and covers most of what
    is uncertain in the whole pool. It is `default` for linear models.

    Perturbations of a linear model move its outputs by a random matrix times its features. So the features' own
    kernel takes the place of that of noise herding, and one pass is enough.
    """

    selector: Choice = FEW_CANDIDATES
    power: float = 2.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""


@register(
    "noise-herding",
    gist="what is unsure, covered by how outputs deviate",
    formula=GAIN
    + "d between deviations under K perturbations, at unit length; w = (1 - (p_(1) - p_(2)))^2; width the median "
    "distance of a labeled example to the next",
    needs=("weights", "probabilities"),
    cost="one forward pass, K over the 20 n smallest margins and the labeled set, then kernels of these",
    paper="of this package: noise stability (Li et al., AAAI 2024) as the kernel of uncertainty herding (Bae et al., "
    "ICLR 2025)",
    when="any task, any number of labels, any size of batch",
)
@dataclass(frozen=True, kw_only=True)
class NoiseHerding(Shortlisting):
    """Examples count by how small their margin is, and two of them are alike if perturbations of the parameters
    move their outputs alike. Each pick covers most of what is unsure and unlike all that is labeled or picked.

    Only the examples with the smallest margins are perturbed, so that a large pool costs a few passes. A regression
    has no margins: all examples count alike, of a large pool those drawn with the seed.
    """

    ranges: ClassVar = {"num_perturbations": "[1, inf)", "power": "(0, inf)"}
    num_perturbations: int = 20
    """K, how often the parameters are perturbed."""
    power: float = 2.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""
    width: float | str = "median"
    """Of the kernel: a distance between rows of unit length, or as `Herding` finds it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Herding(width=self.width)  # a word that it does not know shows now

    def rows(self, context: QueryContext, *pools: Pool) -> Tensor:
        """Return the rows that examples are compared by: deviations under the same perturbations, (n, K d)."""
        return deviations(context, self.num_perturbations, *pools)

    def embedding(self, context: QueryContext) -> Embedded:
        """How the output of each example moves, (n, K d), and that of labeled ones."""
        return Embedded(*context.split(self.rows(context, *context.pools)))

    def number(self, context: QueryContext) -> int:
        """Return K, whatever the `context`."""
        return self.num_perturbations

    def picker(self, context: QueryContext) -> Herding:
        """Herding with a kernel of this width, whatever the `context`."""
        return Herding(width=self.width)

    def among(self, context: QueryContext, short: Shortlist, n: int) -> Picks:
        """Perturb the candidates, and cover them."""
        kept = short.places
        with context.timed("embedding"):
            moved = self.rows(context, context.pool.take(kept), *context.pools[1:])
        with context.selecting(n):
            rows, known = moved[: len(kept)], moved[len(kept) :]
            weights = torch.ones(len(kept)) if short.doubts is None else short.doubts.pow(self.power)
            centers = known if len(known) else None
            picks = self.picker(context).pick(rows, n, centers=centers, weights=weights, seed=context.seed)
            return picks.at(kept)
