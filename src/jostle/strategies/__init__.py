"""Every method by name, and `compose`: `select("noise-stability", model, pool, n=100)`."""

from typing import Any, overload

from torch import nn

from jostle.core import Query, Strategy
from jostle.inference.context import DEFAULTS, Options, split_options
from jostle.strategies.alfa_mix import AlfaMix
from jostle.strategies.arrays import MODEL_OR_ARRAYS, select_from_arrays
from jostle.strategies.badge import Badge
from jostle.strategies.bait import Bait
from jostle.strategies.batch_bald import BatchBald
from jostle.strategies.cal import Cal
from jostle.strategies.classical import (
    Entropy,
    ExpectedGradientLength,
    LeastConfidence,
    Margin,
    PowerMargin,
    Random,
)
from jostle.strategies.clue import Clue
from jostle.strategies.cluster_margin import ClusterMargin
from jostle.strategies.composition import compose
from jostle.strategies.coreset import CoreSet
from jostle.strategies.default import Default
from jostle.strategies.disagreement import Bald, EntropyDropout, QueryByCommittee
from jostle.strategies.drop_query import DropQuery
from jostle.strategies.epig import Epig
from jostle.strategies.estimators import is_estimator, select_with_estimator
from jostle.strategies.falcun import Falcun
from jostle.strategies.flip_cover import FlipCover
from jostle.strategies.gcn import CoreGCN, UncertainGCN
from jostle.strategies.greedy_sampling import GreedySampling
from jostle.strategies.herding import LinearHerding, MaxHerding, UncertaintyHerding
from jostle.strategies.lcmd import LCMD
from jostle.strategies.ldm_s import LdmS
from jostle.strategies.learning_loss import LearningLoss
from jostle.strategies.noise_herding import NoiseHerding
from jostle.strategies.noise_stability import NoiseStability, deviations
from jostle.strategies.prob_cover import ProbCover
from jostle.strategies.registry import REGISTRY, Entry, build, describe, names, register
from jostle.strategies.sraal import SRAAL
from jostle.strategies.typiclust import TypiClust
from jostle.strategies.vaal import VAAL
from jostle.utils.settings import with_options


@overload
def select(strategy: str | Strategy, model: Any, pool: Any, n: int, **options: Any) -> Query: ...


@overload
def select(
    strategy: str | Strategy, *, n: int, probabilities: Any = None, features: Any = None, **options: Any
) -> Query: ...


@with_options(Options, DEFAULTS)
def select(
    strategy: str | Strategy,
    model: Any = None,
    pool: Any = None,
    n: int | None = None,
    *,
    probabilities: Any = None,
    features: Any = None,
    **settings: Any,
) -> Query:
    """Choose n examples with any strategy by name, its settings being further keywords.

    In place of a model and a pool, arrays will do where a strategy needs no more than these.

    Args:
        strategy: Its name, or the strategy itself.
        model: Any `nn.Module` that gives logits; a private copy of it is scored, in eval mode. Or a fitted scikit-learn
            estimator or pipeline, whose `predict_proba` jostle calls.
        pool: What to choose from: a tensor or array (n, ...), a dict of these, a dataset, list or data loader.
        n: How many to pick, at most the pool less the excluded.
        probabilities: An array (n, c), as `predict_proba` gives it, in place of a model.
        features: An array (n, d), in place of a model, or beside an estimator.

    Returns:
        The picks: `query.indices` are positions into the pool, in the order they were picked.

    Raises:
        ValueError: The call cannot be answered: n is too large, labels do not fit the outputs, rows are not finite, or
            memory does not suffice. The message says what was received and what to do.
        TypeError: An argument has the wrong kind, or a setting does not exist.

    Example:
        >>> import jostle, torch
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> pool = torch.randn(50, 4)
        >>> query = jostle.select("default", model, pool, n=5, seed=0)
        >>> len(set(query.indices))
        5
    """
    if n is None:
        raise TypeError("say how many to pick: n=")
    check_strategy(strategy)
    if model is None:
        return select_from_arrays(strategy, probabilities, features, n, pool=pool, **settings)
    if probabilities is not None or (features is not None and isinstance(model, nn.Module)):
        raise TypeError(MODEL_OR_ARRAYS)
    if is_estimator(model):
        return select_with_estimator(strategy, model, pool, n, features, **settings)
    call, own = split_options(settings)
    if isinstance(strategy, str):
        return REGISTRY.build(strategy, own, Options.__annotations__).select(model, pool, n, **call)
    if own:
        raise TypeError(f"settings belong to the strategy you built; got {', '.join(own)}")
    return strategy.select(model, pool, n, **call)


def check_strategy(strategy: Any) -> None:
    """Raise an error that helps where a class or a function was passed for a strategy."""
    if isinstance(strategy, (str, Strategy)):
        return
    if isinstance(strategy, type) and issubclass(strategy, Strategy):
        raise TypeError(
            f"strategy must be a name or a strategy; got the class {strategy.__name__}: pass {strategy.__name__}()"
        )
    if callable(strategy):
        raise TypeError(
            "strategy must be a name or a strategy; got a function: of rows use "
            "compose('features', selector=function), "
            "of a model and a pool define a class with query(context, n)"
        )
    raise TypeError(f"strategy must be a name or a strategy; got {strategy!r}")


__all__ = [
    "LCMD",
    "SRAAL",
    "VAAL",
    "AlfaMix",
    "Badge",
    "Bait",
    "Bald",
    "BatchBald",
    "Cal",
    "Clue",
    "ClusterMargin",
    "CoreGCN",
    "CoreSet",
    "Default",
    "DropQuery",
    "Entropy",
    "EntropyDropout",
    "Entry",
    "Epig",
    "ExpectedGradientLength",
    "Falcun",
    "FlipCover",
    "GreedySampling",
    "LdmS",
    "LearningLoss",
    "LeastConfidence",
    "LinearHerding",
    "Margin",
    "MaxHerding",
    "NoiseHerding",
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
    "compose",
    "describe",
    "deviations",
    "names",
    "register",
    "select",
]
