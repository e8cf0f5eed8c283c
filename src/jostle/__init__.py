"""jostle picks the examples worth labeling: jostle the weights, label what moves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jostle import datasets, embeddings, models, selectors, strategies
    from jostle.core import Embedded, Embedding, Query, Strategy
    from jostle.inference.context import QueryContext
    from jostle.selectors import Picks, Selector, k_center, k_dpp, k_means_pp, top_k
    from jostle.strategies import NoiseStability, compose, deviations, select

__version__ = "0.2.0"

SUBPACKAGES = ("datasets", "embeddings", "models", "selectors", "strategies")
HOMES = {  # where each public name is defined
    **dict.fromkeys(("Embedded", "Embedding", "Query", "Strategy"), "core"),
    "QueryContext": "inference.context",
    **dict.fromkeys(("Picks", "Selector", "k_center", "k_dpp", "k_means_pp", "top_k"), "selectors"),
    **dict.fromkeys(("NoiseStability", "compose", "deviations", "select"), "strategies"),
}

__all__ = [
    "Embedded",
    "Embedding",
    "NoiseStability",
    "Picks",
    "Query",
    "QueryContext",
    "Selector",
    "Strategy",
    "compose",
    "datasets",
    "deviations",
    "embeddings",
    "k_center",
    "k_dpp",
    "k_means_pp",
    "models",
    "select",
    "selectors",
    "strategies",
    "top_k",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: torch takes seconds, and `jostle --help` needs none of it."""
    if name in SUBPACKAGES:
        return import_module(f"jostle.{name}")
    if name not in HOMES:
        raise AttributeError(f"module 'jostle' has no attribute {name!r}")
    return getattr(import_module(f"jostle.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
