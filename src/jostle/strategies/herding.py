"""Herding (Bae et al., ICLR 2025): cover what the model is unsure of, or all of it while nothing is labeled."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.embeddings.features import Features
from jostle.embeddings.uncertainty import small_margin
from jostle.inference.context import QueryContext
from jostle.selectors import Herding, max_herding, narrow_herding
from jostle.strategies.registry import ANY_TASK, register

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
    tasks=ANY_TASK,
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
    tasks=ANY_TASK,
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

    shardable = True

    selector: Choice = narrow_herding
    power: float = 1.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.power > 0:
            raise ValueError(f"power is above 0; got {self.power}")

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
    tasks=ANY_TASK,
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
    tasks=ANY_TASK,
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
