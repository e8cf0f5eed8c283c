"""What a strategy is: one call answered with picks; and what an embedding is: a strategy that has rows."""

from jostle.core.costs import Costs
from jostle.core.embedding import Choice, Embedding
from jostle.core.joined import Joined
from jostle.core.plan import Plan
from jostle.core.query import Query
from jostle.core.strategy import Embedded, Strategy

__all__ = ["Choice", "Costs", "Embedded", "Embedding", "Joined", "Plan", "Query", "Strategy"]
