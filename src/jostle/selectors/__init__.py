"""Selectors turn rows into distinct positions; they know no model."""

from functools import partial
from typing import Any

from jostle.selectors.base import REGISTRY as REGISTRY
from jostle.selectors.base import (
    Function,
    Picks,
    Selector,
    Weighing,
    break_ties,
    first_copies,
    selector,
    tie_keys,
)
from jostle.selectors.clusters import LCMD, Typical, WeightedKMeans, lcmd, weighted_k_means
from jostle.selectors.herding import Herding, max_herding, narrow_herding
from jostle.selectors.k_center import KCenter, k_center
from jostle.selectors.k_dpp import KDPP, k_dpp
from jostle.selectors.k_means_pp import KMeansPP, k_means_pp
from jostle.selectors.prob_cover import ProbCover
from jostle.selectors.shards import Shards
from jostle.selectors.top_k import Longest, Stochastic, TopK, Uniform, longest, stochastic, top_k, uniform
from jostle.selectors.variance import ExplainedVariance, explained_variance

__all__ = [
    "KDPP",
    "LCMD",
    "ExplainedVariance",
    "Function",
    "Herding",
    "KCenter",
    "KMeansPP",
    "Longest",
    "Picks",
    "ProbCover",
    "Selector",
    "Shards",
    "Stochastic",
    "TopK",
    "Typical",
    "Uniform",
    "Weighing",
    "WeightedKMeans",
    "break_ties",
    "build",
    "describe",
    "explained_variance",
    "first_copies",
    "k_center",
    "k_dpp",
    "k_means_pp",
    "lcmd",
    "longest",
    "max_herding",
    "names",
    "narrow_herding",
    "register",
    "selector",
    "stochastic",
    "tie_keys",
    "top_k",
    "uniform",
    "weighted_k_means",
]

REGISTRY.enter(
    {
        "k-center": KCenter,
        "k-center-unit": partial(KCenter, unit=True),
        "k-means++": KMeansPP,
        "k-dpp": KDPP,
        "top-k": TopK,
        "longest": Longest,
        "uniform": Uniform,
        "lcmd": LCMD,
        "prob-cover": ProbCover,
        "typical": Typical,
        "herding": Herding,
        "explained-variance": ExplainedVariance,
        "stochastic": Stochastic,
        "weighted-k-means": WeightedKMeans,
    }
)
describe, names, register = REGISTRY.entry, REGISTRY.names, REGISTRY.register


def build(name: str, /, **settings: Any) -> Selector:
    """Build a selector by name.

    Args:
        name: A name of the registry, or `file.py:name`, a class or function of your own that builds one.
        settings: Its settings, by keyword.
    """
    return REGISTRY.build(name, settings)
