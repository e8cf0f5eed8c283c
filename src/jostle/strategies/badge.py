"""BADGE (Ash et al., ICLR 2020): diverse gradients of the last layer."""

from dataclasses import dataclass

from jostle.core import Choice
from jostle.embeddings.gradients import LastLayerGradients
from jostle.selectors import k_means_pp
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
