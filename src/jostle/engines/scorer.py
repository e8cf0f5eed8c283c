"""What a worker does with a portion: the rows that one machine would give these examples, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from jostle.engines.portions import Portion
from jostle.inputs import Inputs, Labeled, Pool
from jostle.inputs.sources import Source
from jostle.rows import Rows
from jostle.scoring.network import Head, Network, Overwritten, Read
from jostle.scoring.options import Options
from jostle.scoring.passes import Passes
from jostle.scoring.request import Request, requested
from jostle.selectors import Picks, Selector
from jostle.selectors.shards import Shard, Shards

T = TypeVar("T")
Resume = Callable[[Callable[[], None]], None]  # has work done as part of the call that it belongs to


class Embeds(Protocol):
    """What gives rows: an `Embedding` whose rows depend on their own examples alone."""

    @property
    def head(self) -> Head:
        """Where features are read."""

    @property
    def outputs(self) -> Read | None:
        """How outputs are read."""

    def embedding(self, request: Request, /) -> Any:
        """Rows of the request's pool, and centers where there are some."""

    def over_shards(self, request: Request, size: int, n: int | None, /) -> Embeds:
        """What picks n of so many examples in shards."""

    def shard(self, request: Request, places: Tensor, resume: Resume, /) -> Shard:
        """What a shard knows of the examples of a request, to begin with."""

    def picks_over(
        self, shards: Shards, picker: Selector, n: int, centers: Rows | None, seed: int, /
    ) -> tuple[Picks, Passes | None]:
        """Pick n examples of all shards."""


@dataclass(frozen=True)
class Order:
    """All that a worker needs to score any portion, the same for every worker."""

    strategy: Embeds
    model: nn.Module
    options: Options
    """Those of the call, with the seed and the size of micro-batches settled."""
    example: Inputs
    """The pool's first examples, which show the model's shapes to every worker alike."""
    source: Source | None
    """The whole pool, where portions cannot be cut out of it."""


class Scorer:
    """Rows of portions under one copy of the model: every portion meets the same jolts, masks and draws."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.careful = False  # the model writes into what it is given
        self.network: Network | None = None

    def shard(self, portion: Portion) -> Shard:
        """A portion's rows at their places, or whatever is known of them at first."""
        pool = portion.pool(self.order.source)

        def resume(work: Callable[[], None]) -> None:
            self.asked(lambda request: work(), pool)

        def made(request: Request) -> Shard:
            if request.labeled is not None and len(request.labeled):
                request.labeled = only_first(request.labeled)  # centers are made once, by `centers`
            places = torch.arange(portion.span.start, portion.span.stop)
            return self.order.strategy.shard(request, places, resume)

        return self.asked(made, pool)

    def centers(self, portion: Portion) -> Tensor | None:
        """Rows of the labelled set, where the strategy starts from some."""
        pool = portion.pool(self.order.source)
        few = pool.take(torch.arange(min(2, len(pool))))
        found: Tensor | None = self.asked(lambda r: self.order.strategy.embedding(r).centers, few)
        return found

    def asked(self, ask: Callable[[Request], T], pool: Pool) -> T:
        """What `ask` makes of a request; asked once more where the model turned out to write into its inputs."""
        try:
            return self._asked(ask, pool)
        except Overwritten:
            self.careful, self.network = True, None
            return self._asked(ask, pool)

    def _asked(self, ask: Callable[[Request], T], pool: Pool) -> T:
        order, strategy = self.order, self.order.strategy
        with requested(
            order.model, pool, order.options, strategy.head, strategy.outputs, self.careful
        ) as request:
            if self.network is None:
                self.network = request.network_on(order.options.get("device"), order.model, order.example)
            request.network = self.network
            return ask(request)


def only_first(labeled: Labeled) -> Labeled:
    """The first labelled example: enough for what asks whether there are any."""
    return replace(labeled, inputs=labeled.inputs.take(torch.arange(1)))
