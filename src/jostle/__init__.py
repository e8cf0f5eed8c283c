"""jostle picks the examples worth labelling: jostle the weights, label what moves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jostle import strategies
    from jostle.selectors import k_center, k_dpp, k_means_pp, top_k
    from jostle.strategies import NoiseStability, deviations, select
    from jostle.strategies.base import Query, Strategy

__version__ = "0.1.0"
HOMES = ("strategies", "selectors")  # where the public names are defined

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


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: torch takes seconds, and `jostle --help` needs none of it."""
    if name in HOMES:
        return import_module(f"jostle.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'jostle' has no attribute {name!r}")
    homes = (import_module(f"jostle.{home}") for home in HOMES)
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def __dir__() -> list[str]:
    return __all__
