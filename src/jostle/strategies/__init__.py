"""Strategies by name: `select("noise-stability", model, pool, n=100)`; `register` adds your own."""

from typing import Any

from torch import nn

from jostle.core import Query, Strategy, split_options
from jostle.strategies.catalogue import Entry, build, describe, names, register
from jostle.strategies.noise_stability import NoiseStability, deviations


def select(strategy: str | Strategy, model: nn.Module, pool: Any, n: int, **options: Any) -> Query:
    """Choose n examples with any strategy by name: options are those of `Strategy.select` and its settings."""
    call, settings = split_options(options)
    if isinstance(strategy, str):
        return build(strategy, **settings).select(model, pool, n, **call)
    if settings:
        raise TypeError(f"settings belong to the strategy you built; got {', '.join(settings)}")
    return strategy.select(model, pool, n, **call)


__all__ = ["Entry", "NoiseStability", "build", "describe", "deviations", "names", "register", "select"]
