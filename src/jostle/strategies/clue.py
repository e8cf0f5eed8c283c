"""CLUE (Prabhu et al., ICCV 2021): clusters of features, weighted by entropy."""

from dataclasses import dataclass

from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.embeddings.uncertainty import DISTRIBUTIONS, NO_CLASSES, entropy
from jostle.inference.context import QueryContext
from jostle.selectors import weighted_k_means
from jostle.strategies.registry import register


@register(
    "clue",
    gist="one of each cluster, where what is unsure counts more",
    formula="argmin sum_i H(p_i) |h_i - mu_k(i)|^2 by k-means with n clusters; the example nearest to each mu",
    needs=("probabilities", "features"),
    tasks=DISTRIBUTIONS,
    cost="one forward pass, then weighted k-means with n clusters",
    paper="Prabhu et al., Active Domain Adaptation via Clustering Uncertainty-weighted Embeddings, ICCV 2021",
    when="large batches, and a model that meets new data, as in domain adaptation",
)
@dataclass(frozen=True, kw_only=True)
class Clue(Embedding):
    """k-means over features in which an example counts by its entropy, with a cluster for each pick.
    Centers move to where much is uncertain, and each takes the example nearest to it.
    """

    selector: Choice = weighted_k_means
    temperature: float = 1.0
    """Logits are divided by it before the entropy; the authors take 1 for digits and 0.1 for DomainNet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0; got {self.temperature}")

    def embedding(self, context: QueryContext) -> Embedded:
        """Features, and entropies as weights."""
        context.check_task("clue", DISTRIBUTIONS, NO_CLASSES)

        def tempered(p: Tensor) -> Tensor:
            q = p.pow(1 / self.temperature)
            return entropy(q / q.sum(-1, keepdim=True))

        features, weights = context.features_and_scores(tempered, context.pool, what="features and entropies")
        return Embedded(features, weights=weights.to(features.dtype))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features and entropies of the pool from one pass."""
        return feature_estimate(context, 8, labeled=False)
