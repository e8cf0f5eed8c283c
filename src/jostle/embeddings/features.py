"""Features of the pool and of the labeled set, from one pass so that they compare."""

from dataclasses import dataclass

from jostle.core import Embedded, Embedding, Estimate, feature_estimate
from jostle.inference.context import QueryContext


@dataclass(frozen=True, kw_only=True)
class Features(Embedding):
    """The input of the model's head, maps and tokens averaged; that of the labeled set gives centers."""

    shardable = True

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of the pool, and those of the labeled set as centers."""
        return Embedded(*context.split(context.features(*context.pools)))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features of pool and labeled set from one pass."""
        return feature_estimate(context)
