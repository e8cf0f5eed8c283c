"""LCMD (Holzmueller et al., JMLR 2023): largest cluster, maximum distance, on sketched gradients."""

from dataclasses import dataclass

from jostle.embeddings.base import Embedded
from jostle.embeddings.gradients import sketched_gradients
from jostle.scoring.request import Request
from jostle.selectors.lcmd import lcmd
from jostle.strategies.base import Choice, Strategy
from jostle.strategies.catalogue import register

TASKS = ("regression", "classification")


@register(
    "lcmd",
    formula="phi_i = U^T grad_theta f(x_i), U Gaussian with 512 columns; farthest of the heaviest cluster",
    needs=("labelled set",),
    tasks=TASKS,
    cost="`sketch` + 1 forward passes over pool and labelled set, then O(n sketch) per pick",
    paper="Holzmueller et al., A Framework and Benchmark for Deep Batch Active Learning for Regression, JMLR 2023",
    when="regression, where there are no probabilities: the strong choice of its benchmark",
)
@dataclass(frozen=True, kw_only=True)
class LCMD(Strategy):
    """Gradients of the output with respect to all parameters, sketched, cluster around labelled and picked examples.
    Each pick is the farthest example of the cluster with the largest sum of squared distances.

    Of a classifier the logit of the predicted class is taken.
    """

    selector: Choice = lcmd
    sketch: int = 512  # random directions; fewer are faster and rougher
    estimator: str = "finite"  # differences, on any model; "jvp": the exact derivative, four times slower

    def embedding(self, request: Request) -> Embedded:
        """Sketched gradients of the pool, and those of the labelled set as centers."""
        why = "it follows the gradient of one output; use coreset or noise-stability"
        request.check_task("lcmd", TASKS, why)
        request.needs_labeled("lcmd")
        rows, centers = sketched_gradients(request, self.sketch, self.estimator)
        return Embedded(rows, centers)
