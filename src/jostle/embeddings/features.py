"""Features of the pool and of the labelled set, from one pass so that they compare."""

from dataclasses import dataclass

from jostle.core import Costs, Embedded, Embedding
from jostle.core.costs import features
from jostle.scoring.request import Request


@dataclass(frozen=True, kw_only=True)
class Features(Embedding):
    """The input of the model's head, maps and tokens averaged; that of the labelled set gives centers."""

    alone = True

    def embedding(self, request: Request) -> Embedded:
        """Features of the pool, and those of the labelled set as centers."""
        return Embedded(*request.parted(request.features(*request.pools)))

    def making(self, request: Request) -> Costs:
        """Features of pool and labelled set from one pass."""
        return features(request)
