"""An Embedding is a strategy that has rows: a request in, one row for each example out, then its selector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from torch import Tensor, nn

from jostle.core.costs import Costs, scores
from jostle.core.plan import rehearsed, trial
from jostle.core.query import Query
from jostle.core.strategy import Embedded, Strategy
from jostle.engines import Ray
from jostle.engines.portions import Candidates
from jostle.engines.scorer import Resume
from jostle.inputs import check_count
from jostle.plumbing.progress import Expected
from jostle.rows import Rows
from jostle.scoring.options import Options
from jostle.scoring.passes import Passes
from jostle.scoring.request import Request
from jostle.scoring.selecting import selecting
from jostle.selectors import Picks, Selector, Weighing, k_center, selector
from jostle.selectors.shards import Shard, Shards

Choice = Selector | str | Callable[..., Any]  # a selector, its name, or a function (rows, n) -> positions


@dataclass(frozen=True, kw_only=True)
class Embedding(Strategy):
    """Turns a request into one row for each example, among which its selector picks: any selector will do.

    `embedding` says the rows; how rows become picks is written here, once and for all.
    """

    alone: ClassVar[bool] = False
    """Whether a row depends on its own example alone, so that shards of a pool can be scored apart."""

    selector: Choice = k_center
    """How rows become picks: a selector, its name, or a function (rows, n) -> positions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        selector(self.selector)  # a name that is not known shows now, not after the scoring

    @abstractmethod
    def embedding(self, request: Request) -> Embedded:
        """One row for each example of the request's pool, and centers where the selector is to start from some."""

    def picks_early(self, request: Request, n: int) -> Picks | None:
        """n picks of the `request` where they can be told before the rows of all examples are known; None: they
        cannot.
        """
        return None

    def making(self, request: Request) -> Costs:
        """What rows of the pool take, told before the work; one score from one pass unless it says otherwise.

        Args:
            request: The call.
        """
        return scores(request)

    def costs(self, request: Request, n: int | None) -> Costs:
        """What rows take, and picks among them."""
        made = self.making(request)
        if n is None:
            return made
        return replace(made, selecting=selector(self.selector).room(len(request.pool), made.width, n))

    def selecting_seconds(self, request: Request, costs: Costs, n: int) -> float:
        """As its selector takes among a few random rows."""
        size = len(request.pool)
        return rehearsed(
            selector(self.selector), self.made_up(request, costs.width, size), size, n, costs.centers
        )

    def made_up(self, request: Request, width: int, size: int) -> Rows:
        """Some rows such as a `request` gives, of this `width`, at most `size` of them, to try a selector on."""
        return trial(width, size)

    def expected(self, request: Request, picker: Selector, n: int) -> Expected | None:
        """What tells how long selection takes, for a bar; None where a `picker` says how far it is.

        Args:
            request: The call.
            picker: The selector.
            n: How many are to be picked.
        """
        if picker.tells:
            return None
        return lambda: self.selecting_seconds(request, self.costs(request, n), n)

    def refuse_shards(self, request: Request) -> None:
        """Refuse a `request` whose rows would depend on other examples, before a cluster begins."""

    def over_shards(self, request: Request, size: int, n: int | None) -> Embedding:
        """What picks n of so many examples in shards; what is not sure before the work is settled, for all alike.

        Args:
            request: The call, with a couple of examples to try the model on.
            size: How many examples there are.
            n: How many are to be picked; None: rows of all examples are wanted.
        """
        self.refuse_shards(request)
        return self

    def shard(self, request: Request, places: Tensor, resume: Resume) -> Shard:
        """What a shard knows of the examples of a `request`, to begin with.

        Args:
            request: A portion of the pool.
            places: The places of its examples.
            resume: Has further work done as part of the request, for shards that come back to the model.
        """
        return Shard(self.embedding(request).rows, places)

    def picks_over(
        self, shards: Shards, picker: Selector, n: int, centers: Rows | None, seed: int
    ) -> tuple[Picks, Passes | None]:
        """Pick n examples of all shards, and what a race took where there was one.

        Args:
            shards: As `shard` makes them.
            picker: What picks.
            n: How many.
            centers: Rows of what is labelled, where it starts from these.
            seed: Repeats draws.
        """
        return picker.pick_over(shards, n, centers=centers, seed=seed), None

    def select_on(self, where: Ray, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """Have shards of the pool scored by a cluster, and pick among the rows where they lie."""
        picker = selector(self.selector)
        if not self.alone:
            raise ValueError(self.needs_whole_pool)
        if not picker.over_shards:
            raise ValueError(
                f"{self.spoken}: {type(picker).__name__} looks at all rows at once, which lie in shards on a cluster: "
                "leave engine= out, or set selector= to k-center, k-means++, longest or top-k"
            )
        candidates = Candidates.of(pool, options)
        n = check_count(n, candidates, candidates.source)
        found = where.picks(self, picker, model, candidates, n, options)
        indices = candidates.positions(found.picks.positions.cpu()).numpy()
        values = found.picks.scores.double().cpu().numpy()
        return Query(indices, values, found.seconds, found.seed, found.passes, certificate=found.certificate)

    @final
    def query(self, request: Request, n: int) -> Picks:
        """Embed, then select, unless the picks show on the way."""
        with request.timed("embedding"):
            early = self.picks_early(request, n)
            if early is not None:
                return early
            embedded = self.embedding(request)
        picker = selector(self.selector)
        with selecting(request, n, self.expected(request, picker, n)):
            weights = {"weights": embedded.weights} if isinstance(picker, Weighing) else {}
            return picker.pick(embedded.rows, n, centers=embedded.centers, seed=request.seed, **weights)
