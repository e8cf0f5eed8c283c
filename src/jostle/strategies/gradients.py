"""Strategies on gradients of the model: BADGE and LCMD."""

from dataclasses import dataclass

from jostle.core import Choice, Embedded
from jostle.embeddings.gradients import LastLayerGradients, SketchedGradients
from jostle.inference.context import QueryContext
from jostle.selectors import k_means_pp
from jostle.selectors.clusters import lcmd
from jostle.strategies.registry import register


@register(
    "badge",
    gist="k-means++ on the last layer's gradients",
    formula="g_i = (p_i - onehot(argmax p_i)) x h_i; k-means++: the longest, then drawn by squared gap",
    needs=("probabilities", "features"),
    cost="one forward pass, then O(n (c + d)) per pick at worst: the c d gradients are never built",
    paper="Ash et al., Deep Batch Active Learning by Diverse, Uncertain Gradient Lower Bounds, ICLR 2020",
    when="classification of any size, images or text, when a batch must be both uncertain and diverse",
)
@dataclass(frozen=True, kw_only=True)
class Badge(LastLayerGradients):
    """The gradient that the predicted class would cause in the last layer is short where the model is sure.
    k-means++ on these gradients draws examples that are uncertain and unlike each other.
    """

    selector: Choice = k_means_pp


@register(
    "lcmd",
    gist="sketched gradients, the heaviest cluster first",
    formula="phi_i = U^T grad_theta f(x_i), U Gaussian with 512 columns; farthest of the heaviest cluster",
    needs=("weights", "labeled set"),
    cost="`sketch` + 1 forward passes over pool and labeled set, then O(n sketch) per pick",
    paper="Holzmueller et al., A Framework and Benchmark for Deep Batch Active Learning for Regression, JMLR 2023",
    when="regression, where there are no probabilities: the strong choice of its benchmark",
)
@dataclass(frozen=True, kw_only=True)
class LCMD(SketchedGradients):
    """Gradients of the output with respect to all parameters, sketched, cluster around labeled and picked examples.
    Each pick is the farthest example of the cluster with the largest sum of squared distances.

    Of a classifier the logit of the predicted class is taken.
    """

    selector: Choice = lcmd

    def embedding(self, context: QueryContext) -> Embedded:
        """Sketched gradients of the pool, and those of the labeled set, without which there is no cluster."""
        context.needs_labeled(self.name)
        return super().embedding(context)
