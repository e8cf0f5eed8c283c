"""The two abstractions: a strategy answers a query with picks, an embedding is a strategy that has rows."""

from jostle.core.planning import Plan
from jostle.core.query import Query
from jostle.core.strategy import Choice, Embedded, Embedding, Joined, Strategy
from jostle.inference.memory import Estimate, feature_estimate, perturbed_estimate, score_estimate

__all__ = [
    "Choice",
    "Embedded",
    "Embedding",
    "Estimate",
    "Joined",
    "Plan",
    "Query",
    "Strategy",
    "feature_estimate",
    "perturbed_estimate",
    "score_estimate",
]
