"""CoreSet (Sener and Savarese, ICLR 2018): cover the feature space."""

from dataclasses import dataclass

from jostle.core import Embedded
from jostle.embeddings.features import Features
from jostle.inference.context import QueryContext
from jostle.strategies.registry import ANY_TASK, register


@register(
    "coreset",
    gist="k-center on features: far from what is labeled",
    formula="argmax_i min_{j labeled or picked} ||h_i - h_j||, repeated",
    needs=("features", "labeled set"),
    tasks=ANY_TASK,
    cost="one forward pass over pool and labeled set, then O(n d) per pick at worst",
    paper="Sener and Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018",
    when="large batches on any task with good features; it ignores what the model is unsure of",
)
@dataclass(frozen=True, kw_only=True)
class CoreSet(Features):
    """Every example should lie near a labeled one in the space of features.
    Greedy k-center takes the example farthest from all that is labeled or picked, again and again.
    """

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of the pool, and those of the labeled set, which is what there is to cover from."""
        context.needs_labeled("coreset")
        return super().embedding(context)
