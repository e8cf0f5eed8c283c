"""Strategies by name: `select("noise-stability", model, pool, n=100)`; `register` adds your own."""

from typing import Any

from torch import nn

from jostle.core import Query, Strategy
from jostle.scoring.options import Options, split_options
from jostle.strategies.alfa_mix import AlfaMix
from jostle.strategies.badge import Badge
from jostle.strategies.bait import Bait
from jostle.strategies.batch_bald import BatchBald
from jostle.strategies.catalogue import Entry, build, built, describe, names, register
from jostle.strategies.classical import (
    Entropy,
    ExpectedGradientLength,
    LeastConfidence,
    Margin,
    PowerMargin,
    Random,
)
from jostle.strategies.cluster_margin import ClusterMargin
from jostle.strategies.coreset import CoreSet
from jostle.strategies.disagreement import Bald, EntropyDropout, QueryByCommittee
from jostle.strategies.drop_query import DropQuery
from jostle.strategies.flip_cover import FlipCover
from jostle.strategies.gcn import CoreGCN, UncertainGCN
from jostle.strategies.herding import MaxHerding, UncertaintyHerding
from jostle.strategies.lcmd import LCMD
from jostle.strategies.learning_loss import LearningLoss
from jostle.strategies.noise_stability import NoiseStability, deviations
from jostle.strategies.prob_cover import ProbCover
from jostle.strategies.sraal import SRAAL
from jostle.strategies.typiclust import TypiClust
from jostle.strategies.vaal import VAAL


def select(strategy: str | Strategy, model: nn.Module, pool: Any, n: int, **options: Any) -> Query:
    """Choose n examples with any strategy by name: options are those of `Strategy.select` and its settings."""
    call, settings = split_options(options)
    if isinstance(strategy, str):
        return built(strategy, settings, Options.__annotations__).select(model, pool, n, **call)
    if settings:
        raise TypeError(f"settings belong to the strategy you built; got {', '.join(settings)}")
    return strategy.select(model, pool, n, **call)


__all__ = [
    "LCMD",
    "SRAAL",
    "VAAL",
    "AlfaMix",
    "Badge",
    "Bait",
    "Bald",
    "BatchBald",
    "ClusterMargin",
    "CoreGCN",
    "CoreSet",
    "DropQuery",
    "Entropy",
    "EntropyDropout",
    "Entry",
    "ExpectedGradientLength",
    "FlipCover",
    "LearningLoss",
    "LeastConfidence",
    "Margin",
    "MaxHerding",
    "NoiseStability",
    "PowerMargin",
    "ProbCover",
    "Query",
    "QueryByCommittee",
    "Random",
    "Strategy",
    "TypiClust",
    "UncertainGCN",
    "UncertaintyHerding",
    "build",
    "describe",
    "deviations",
    "names",
    "register",
    "select",
]
