"""BADGE (Ash et al., ICLR 2020): diverse gradients of the last layer."""

from dataclasses import dataclass

from jostle.embeddings.base import Embedded
from jostle.embeddings.gradients import last_layer_gradients
from jostle.scoring.request import Request
from jostle.selectors import k_means_pp
from jostle.strategies.base import Choice, Strategy
from jostle.strategies.catalogue import register

WHY_NOT = (
    "its rows are gradients at one predicted class; use lcmd for a regression, or coreset with "
    "selector='k-means++', or noise-stability"
)


@register(
    "badge",
    formula="g_i = (p_i - onehot(argmax p_i)) x h_i; k-means++: the longest, then drawn by squared gap",
    needs=("probabilities", "features"),
    tasks=("classification",),
    cost="one forward pass, then O(n (c + d)) per pick at worst: the c d gradients are never built",
    paper="Ash et al., Deep Batch Active Learning by Diverse, Uncertain Gradient Lower Bounds, ICLR 2020",
    when="classification of any size, images or text, when a batch must be both uncertain and diverse",
)
@dataclass(frozen=True, kw_only=True)
class Badge(Strategy):
    """The gradient that the predicted class would cause in the last layer is short where the model is sure.
    k-means++ on these gradients draws examples that are uncertain and unlike each other.
    """

    selector: Choice = k_means_pp

    def embedding(self, request: Request) -> Embedded:
        """Gradients of the pool as two factors."""
        request.check_task("badge", ("classification",), WHY_NOT)
        features, outputs = request.features_and_outputs()
        return Embedded(last_layer_gradients(features, request.probabilities_of(outputs)))
