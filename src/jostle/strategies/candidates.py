"""Candidates: the few examples of a large pool among which a strategy chooses, so that only they are jolted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from jostle.core import Costs, Query, Strategy
from jostle.core.plan import rehearsed, trial
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.uncertainty import Margin, small_margin
from jostle.engines import Ray
from jostle.engines.portions import Candidates
from jostle.inputs import check_count
from jostle.rng import as_seed
from jostle.scoring.options import Options
from jostle.scoring.rehearsal import Rehearsal
from jostle.scoring.request import Request
from jostle.selectors import Picks, Selector, top_k
from jostle.selectors.top_k import largest_first

LEAST = 2048  # drawn at least: without margins nothing tells which of them matter


@dataclass(frozen=True)
class Shortlist:
    """Some examples of a pool, by place."""

    places: Tensor
    """(m,), ascending."""
    doubts: Tensor | None = None
    """One less the margin of each, (m,); None: nobody looked at margins."""


@dataclass(frozen=True, kw_only=True)
class Shortlisting(Strategy):
    """Looks at the margins of all examples and chooses among those of the smallest: `among` says how.

    Of a regression, which has no margins, candidates are drawn. A cluster finds the smallest margins in shards of the
    pool; the candidates are then read and jolted in this process, which holds nothing of the others.
    """

    weighs: ClassVar[bool] = True
    """Whether margins matter to `among` too, so that they are wanted of a pool that is kept as a whole."""

    keep: int = 20
    """Candidates for each pick, those of the smallest margins; a regression draws them, at least 2,048."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep < 1:
            raise ValueError(f"keep is at least 1; got {self.keep}")

    @abstractmethod
    def among(self, request: Request, short: Shortlist, n: int) -> Picks:
        """Choose n of the examples on a shortlist; picks are places of the `request`'s pool."""

    @abstractmethod
    def picker(self, request: Request) -> Selector:
        """What picks among the candidates of a `request`."""

    @abstractmethod
    def jolted(self, request: Request) -> Deviations:
        """How the candidates of a `request` are jolted."""

    def scoring_seconds(self, rehearsal: Rehearsal, costs: Costs) -> float:
        """All passes, and for each jolt the noise."""
        jolted = self.jolted(rehearsal.request)
        drawing = jolted.jolts * jolted.drawing_seconds(rehearsal.request)
        return super().scoring_seconds(rehearsal, costs) + drawing

    def selecting_seconds(self, request: Request, costs: Costs, n: int) -> float:
        """As its selector takes among a few random rows, of which there are no more than candidates."""
        kept = self.candidate_count(request, len(request.pool), n)
        known = sum(map(len, request.pools[1:]))
        return rehearsed(self.picker(request), trial(costs.width, kept).double(), kept, n, known)

    def query(self, request: Request, n: int) -> Picks:
        """Keep the smallest margins, and choose among them."""
        with request.timed("embedding"):
            size = len(request.pool)
            short = self.shortlist(request, size, n, lambda count: of_smallest_margin(request, count))
        return self.among(request, short, n)

    def shortlist(
        self, request: Request, size: int, n: int, of_smallest: Callable[[int], Shortlist]
    ) -> Shortlist:
        """Candidates for n picks from a pool of some `size`, of which `of_smallest` finds so many smallest margins."""
        count = self.candidate_count(request, size, n)
        if request.task.name == "regression":
            return Shortlist(drawn(request, size, count))
        if not self.looked_at(request, size, count):
            return Shortlist(torch.arange(size, device="cpu"))
        return of_smallest(count)

    def candidate_count(self, request: Request, size: int, n: int) -> int:
        """How many of `size` examples are candidates for n picks of a `request`."""
        least = LEAST if request.task.name == "regression" else 0
        return min(size, max(self.keep * n, least))

    def looked_at(self, request: Request, size: int, count: int) -> int:
        """Of how many of `size` examples margins are wanted, where so many are candidates of a `request`."""
        return 0 if request.task.name == "regression" or (count == size and not self.weighs) else size

    def select_on(self, where: Ray, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """Have margins of the pool found by a cluster, and choose here among the smallest."""
        candidates = Candidates.of(pool, options)
        n = check_count(n, candidates, candidates.source)
        settled = Options(**{**options, "seed": as_seed(options.get("seed"))})
        seconds = {"embedding": 0.0, "selection": 0.0}

        def of_smallest(count: int) -> Shortlist:
            margins = Margin(head=self.head, outputs=self.outputs, memory_bytes=self.memory_bytes)
            found = where.picks(margins, top_k, model, candidates, count, settled)
            seconds["embedding"] = sum(found.seconds.values())
            places, order = found.picks.positions.sort()
            return Shortlist(places, found.picks.scores[order])

        def shortlist(request: Request) -> Shortlist:
            return self.shortlist(request, len(candidates), n, of_smallest)

        short = self.answer(shortlist, model, candidates.first, settled)
        kept = candidates.at(short.places)

        def choose(request: Request) -> Query:
            assert (
                request.network
            )  # made while the first examples are there to show their shapes, as on one machine
            request.pool, request.seconds = kept, seconds
            self.check_costs(request, n)
            picks = self.among(request, replace(short, places=torch.arange(len(kept))), n)
            indices, scores = kept.positions[picks.positions.cpu()], picks.scores.double().cpu()
            return Query(indices.numpy(), scores.numpy(), seconds, request.seed, notes=tuple(request.notes))

        return self.answer(choose, model, candidates.first, settled)


def of_smallest_margin(request: Request, count: int) -> Shortlist:
    """The most uncertain examples; the seed decides among equals."""
    margins = request.score(small_margin, "margins")
    kept = largest_first(margins, request.seed)[:count].sort().values
    return Shortlist(kept.cpu(), margins[kept])


def drawn(request: Request, size: int, count: int) -> Tensor:
    """Places of so many of `size` examples, in order, drawn with the seed."""
    order = torch.randperm(size, generator=request.rng("candidates", device="cpu"), device="cpu")
    return order[:count].sort().values
