"""How unsure a model is of single examples: scores of its distributions (..., c), larger where less is known."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, score_estimate
from jostle.inference.context import QueryContext
from jostle.rows.geometry import Reduction
from jostle.selectors import top_k
from jostle.tasks import CLASS_TASKS

NO_CLASSES = "it scores a distribution over classes; use default, which needs none"
DISTRIBUTIONS = (*CLASS_TASKS, "segmentation", "multi-label", "sequence")


@dataclass(frozen=True, kw_only=True)
class Probabilities(Embedding):
    """The predicted probabilities, those of all pixels, labels or tokens averaged."""

    serves = DISTRIBUTIONS
    why_not = NO_CLASSES
    shardable = True

    def embedding(self, context: QueryContext) -> Embedded:
        """Distributions of the pool, (n, c)."""
        return Embedded(context.score(torch.Tensor.clone, "probabilities"))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """A distribution for each example."""
        made, c = score_estimate(context), context.classes
        return replace(made, rows=made.rows * c, width=c, may_spill=True)


@dataclass(frozen=True, kw_only=True)
class SiteScores(Embedding):
    """Scores of pixels, labels or tokens, reduced to one score for each example."""

    reduction: Reduction = "mean"
    """How scores of tokens, pixels or labels become one: "mean", "sum" (long sequences count more) or "max"."""


def entropy(p: Tensor) -> Tensor:
    """Entropy in nats, from 0 to ln c; a probability of 0 counts 0."""
    total: Tensor = torch.special.entr(p).sum(-1)
    return total


def small_margin(p: Tensor) -> Tensor:
    """One less the gap between the two largest probabilities: 0 when sure, 1 when two classes tie."""
    first, top = p.max(-1, keepdim=True)
    second = p.scatter(-1, top, -torch.inf).amax(-1)  # topk(2) takes twice as long
    return 1 - (first.squeeze(-1) - second)


def lack_of_confidence(p: Tensor) -> Tensor:
    """One less the largest probability."""
    return 1 - p.amax(-1)


@dataclass(frozen=True, kw_only=True)
class UncertaintyScores(SiteScores):
    """A score of each site's distribution: a subclass says which."""

    serves = DISTRIBUTIONS
    why_not = NO_CLASSES
    shardable = True

    selector: Choice = top_k

    @abstractmethod
    def score(self, p: Tensor) -> Tensor:
        """Turn distributions (n, sites, c) into scores (n, sites), larger where less is known."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Scores of all examples, (n,)."""
        return Embedded(context.score(self.score, self.name, self.reduction))


@dataclass(frozen=True, kw_only=True)
class Entropy(UncertaintyScores):
    """Take the examples whose predicted distribution is flattest. It is zero for a sure prediction and ln c for a
    uniform one.
    """

    def score(self, p: Tensor) -> Tensor:
        """Entropies."""
        return entropy(p)


@dataclass(frozen=True, kw_only=True)
class Margin(UncertaintyScores):
    """Take the examples whose two likeliest classes are nearly tied. With two classes the order is entropy's."""

    def score(self, p: Tensor) -> Tensor:
        """One less the margins."""
        return small_margin(p)


@dataclass(frozen=True, kw_only=True)
class LeastConfidence(UncertaintyScores):
    """Take the examples whose likeliest class has the smallest probability. It is the model's own estimate of its
    chance to be wrong.
    """

    def score(self, p: Tensor) -> Tensor:
        """One less the largest probabilities."""
        return lack_of_confidence(p)
