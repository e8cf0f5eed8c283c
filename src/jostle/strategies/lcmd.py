"""LCMD (Holzmueller et al., JMLR 2023): largest cluster, maximum distance, on sketched gradients."""

from dataclasses import dataclass

from jostle.core import Choice, Embedded
from jostle.embeddings.gradients import SketchedGradients
from jostle.inference.context import QueryContext
from jostle.selectors.clusters import lcmd
from jostle.strategies.registry import register


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
