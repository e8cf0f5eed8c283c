"""Run a query on a cluster: score rows in shards where a strategy allows it, or find candidates in shards.

The picks are those of one process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from jostle.core import Embedding, Query, Strategy
from jostle.core.planning import check_estimate
from jostle.engines.portions import Candidates
from jostle.inference.context import QueryContext
from jostle.inference.options import Options
from jostle.inputs import check_count
from jostle.rng import as_seed
from jostle.selectors import Picks, selector, top_k

if TYPE_CHECKING:
    from jostle.engines.ray_engine import Ray

SHARDABLE = "default, noise-stability, badge, coreset, margin, entropy, bald"


@runtime_checkable
class Filtering(Protocol):
    """A strategy that chooses among a few candidates, which scores of single examples tell."""

    screen: type[Embedding]

    def shortlist(self, context: QueryContext, size: int, n: int, of_largest: Any) -> Any:
        """Candidates for n picks from a pool of this size; `of_largest(count)` finds those of the largest scores."""

    def among(self, context: QueryContext, short: Any, n: int) -> Picks:
        """Choose n of the candidates."""


def select_on(
    cluster: Ray, strategy: Strategy, model: nn.Module, pool: Any, n: int, options: Options
) -> Query:
    """Choose n examples of the pool on a cluster.

    Args:
        cluster: The cluster.
        strategy: The strategy.
        model: As `select` takes it.
        pool: As `select` takes it.
        n: The number of picks.
        options: The options of the call.
    """
    if options.get("scores") is not None:
        raise ValueError("scores= are ranked in this process: leave engine= out")
    candidates = Candidates.of(pool, options)
    n = check_count(n, candidates, candidates.source)
    settled = Options(**{**options, "seed": as_seed(options.get("seed"))})
    inside = Options(**{key: value for key, value in settled.items() if key != "exclude"})  # type: ignore[typeddict-item]
    context = strategy.create_context(model, candidates.first, inside)
    if type(strategy).resolve is not Strategy.resolve:
        strategy = context.run(strategy.resolve)
    if isinstance(strategy, Filtering):
        return select_filtered(cluster, strategy, model, candidates, n, settled, context)
    return select_sharded(cluster, strategy, model, candidates, n, settled)


def select_sharded(
    cluster: Ray, strategy: Strategy, model: nn.Module, candidates: Candidates, n: int, options: Options
) -> Query:
    """Score shards of the pool on the cluster, and pick among the rows where they lie."""
    if not isinstance(strategy, Embedding) or not strategy.shardable:
        raise ValueError(
            f"{strategy.name} looks at the pool as a whole, which lies in shards on a cluster: leave engine= out, or "
            f"use one of {SHARDABLE}"
        )
    picker = selector(strategy.selector)
    if not picker.shardable:
        raise ValueError(
            f"{strategy.name}: {type(picker).__name__} looks at all rows at once, which lie in shards on a cluster: "
            "leave engine= out, or set selector= to k-center, k-means++, longest or top-k"
        )
    found = cluster.picks(strategy, picker, model, candidates, n, options)
    indices = candidates.positions(found.picks.positions.cpu()).numpy()
    values = found.picks.scores.double().cpu().numpy()
    return Query(indices, values, found.seconds, found.seed)


def select_filtered(
    cluster: Ray,
    strategy: Any,
    model: nn.Module,
    candidates: Candidates,
    n: int,
    options: Options,
    context: QueryContext,
) -> Query:
    """Find candidates on the cluster, and choose among them in this process."""
    seconds = {"embedding": 0.0, "selection": 0.0}

    def of_largest(count: int) -> tuple[Tensor, Tensor]:
        settings = {"head": strategy.head, "outputs": strategy.outputs, "memory_bytes": strategy.memory_bytes}
        found = cluster.picks(strategy.screen(**settings), top_k, model, candidates, count, options)
        seconds["embedding"] = sum(found.seconds.values())
        places, order = found.picks.positions.sort()
        return places, found.picks.scores[order]

    short = context.run(lambda context: strategy.shortlist(context, len(candidates), n, of_largest))
    kept = candidates.at(short.places)

    def choose(context: QueryContext) -> Query:
        context.pool = candidates.first
        assert context.runner  # traced on the first examples, as in one process
        context.pool, context.seconds = kept, seconds
        check_estimate(strategy, context, n)
        return Query.of(context, strategy.among(context, replace(short, places=torch.arange(len(kept))), n))

    return context.run(choose)
