"""Selectors turn rows into distinct positions; they know no model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from jostle.rows.geometry import Rows
from jostle.selectors.base import (
    Picks,
    Selector,
    Weighing,
    break_ties,
    check_pickable,
    first_copies,
    tie_keys,
)
from jostle.selectors.herding import Herding, max_herding, narrow_herding
from jostle.selectors.k_center import KCenter, k_center
from jostle.selectors.k_dpp import KDPP, k_dpp
from jostle.selectors.k_means_pp import KMeansPP, k_means_pp
from jostle.selectors.lcmd import LCMD, lcmd
from jostle.selectors.prob_cover import ProbCover
from jostle.selectors.shards import Shards
from jostle.selectors.stochastic import Stochastic, stochastic
from jostle.selectors.top_k import Longest, TopK, Uniform, longest, top_k, uniform
from jostle.selectors.typical import Typical
from jostle.selectors.variance import ExplainedVariance, explained_variance
from jostle.selectors.weighted_k_means import WeightedKMeans, weighted_k_means
from jostle.utils.registry import Entry, Registry
from jostle.utils.settings import name_and_settings

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

REGISTRY: Registry[Selector, Entry] = Registry(
    "selector", "jostle.selectors", Entry, makes=(Selector, "a jostle.Selector")
)
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


@dataclass(frozen=True)
class Function(Selector):
    """A function (rows, n) -> positions as a selector; its positions are checked, scores are NaN."""

    uses_centers = False
    function: Callable[[Rows, int], Tensor]
    """From rows and the number of picks to positions."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Call the function; centers and seed are not passed on."""
        check_pickable(n, len(rows))
        positions = torch.as_tensor(self.function(rows, n)).to(rows.device)
        name = getattr(self.function, "__name__", repr(self.function))
        if positions.shape != (n,) or positions.is_floating_point() or positions.dtype == torch.bool:
            raise ValueError(
                f"{name} must return {n} positions, got {positions.dtype} of shape {tuple(positions.shape)}"
            )
        if positions.min() < 0 or positions.max() >= len(rows) or len(set(positions.tolist())) < n:
            raise ValueError(f"{name} must return distinct positions from 0 to {len(rows) - 1}")
        return Picks(positions.long(), torch.full((n,), torch.nan, dtype=torch.float64, device=rows.device))


def selector(spec: str | Selector | Callable[[Rows, int], Tensor]) -> Selector:
    """Return a selector from a name, a function or a selector.

    Args:
        spec: A name, with settings in brackets where needed, `typical(small=3)`; a function (rows, n) -> positions; or
            a selector, which is returned unchanged.
    """
    if isinstance(spec, Selector):
        return spec
    if isinstance(spec, str):
        name, settings = name_and_settings(spec)
        return REGISTRY.build(name, settings)
    if callable(spec):
        return Function(spec)
    raise TypeError(
        f"a selector must be a name, a Selector or a function (rows, n) -> positions, got {spec!r}"
    )
