"""The two abstractions: a strategy answers a query with picks, an embedding is a strategy that has rows."""

from jostle.core.embedding import Choice, Embedding
from jostle.core.planning import Plan
from jostle.core.query import Query
from jostle.core.strategy import Embedded, Joined, Strategy
from jostle.inference.estimate import Estimate

__all__ = ["Choice", "Embedded", "Embedding", "Estimate", "Joined", "Plan", "Query", "Strategy"]
