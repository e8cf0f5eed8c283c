"""jostle picks the examples worth labelling: jostle the weights, label what moves."""

from jostle import strategies
from jostle.core import Query, Strategy
from jostle.selectors import k_center, k_dpp, k_means_pp, top_k
from jostle.strategies import NoiseStability, deviations, select

__version__ = "0.1.0"

__all__ = [
    "NoiseStability",
    "Query",
    "Strategy",
    "deviations",
    "k_center",
    "k_dpp",
    "k_means_pp",
    "select",
    "strategies",
    "top_k",
]
