"""TypiClust (Hacohen et al., ICML 2022): the most typical example of each cluster."""

from dataclasses import dataclass

from jostle.core import Choice
from jostle.embeddings.features import Features
from jostle.selectors.typical import typical
from jostle.strategies.registry import ANY_TASK, register


@register(
    "typiclust",
    gist="typical examples of clusters, for the first labels",
    formula="k-means with min(m + n, 500) clusters; in each argmax 1 / mean_{20 neighbors} ||h_i - h_j||^2",
    needs=("features",),
    tasks=ANY_TASK,
    cost="one forward pass, k-means, then distances within clusters",
    paper="Hacohen et al., Active Learning on a Budget: Opposite Strategies Suit High and Low Budgets, ICML 2022",
    when="the very first labels, with self-supervised features given by head= as a function (model, x) -> (n, d)",
)
@dataclass(frozen=True, kw_only=True)
class TypiClust(Features):
    """With few labels, typical examples teach more than odd ones.
    k-means finds clusters, and each cluster without labels gives the example whose neighbors are nearest.

    The paper uses self-supervised features: pass `head=` a function of model and inputs that returns them.
    Otherwise the model's own features serve. A labeled set is taken into account where there is one.
    """

    selector: Choice = typical
