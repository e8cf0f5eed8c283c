"""CoreSet (Sener and Savarese, ICLR 2018): cover the feature space."""

from dataclasses import dataclass

from jostle.core import Embedded
from jostle.embeddings.features import Features
from jostle.scoring.request import Request
from jostle.strategies.catalogue import ANY_TASK, register


@register(
    "coreset",
    gist="k-center on features: far from what is labelled",
    formula="argmax_i min_{j labelled or picked} ||h_i - h_j||, repeated",
    needs=("features", "labelled set"),
    tasks=ANY_TASK,
    cost="one forward pass over pool and labelled set, then O(n d) per pick at worst",
    paper="Sener and Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018",
    when="large batches on any task with good features; it ignores what the model is unsure of",
)
@dataclass(frozen=True, kw_only=True)
class CoreSet(Features):
    """Every example should lie near a labelled one in the space of features.
    Greedy k-center takes the example farthest from all that is labelled or picked, again and again.
    """

    def embedding(self, request: Request) -> Embedded:
        """Features of the pool, and those of the labelled set, which is what there is to cover from."""
        request.needs_labeled("coreset")
        return super().embedding(request)
