"""A Strategy answers a request (model, pool, seed) with picks: one call for every method there is."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack

from torch import Tensor, nn

from jostle.core.costs import Costs
from jostle.core.joined import Joined
from jostle.core.plan import Plan, planned
from jostle.core.query import Query
from jostle.engines import Ray, engine
from jostle.inputs import Inputs, Pool, check_count
from jostle.plumbing.documented import with_options
from jostle.rows import Rows
from jostle.scoring.network import Head, Overwritten, Read
from jostle.scoring.options import DEFAULTS, Options
from jostle.scoring.refusals import Refused
from jostle.scoring.rehearsal import Rehearsal
from jostle.scoring.request import Request, requested
from jostle.selectors import Picks

T = TypeVar("T")

INSTEAD = ("default", "noise-stability", "badge", "coreset", "margin", "entropy", "bald")  # run on a cluster


@dataclass(frozen=True)
class Embedded:
    """What a strategy chooses by: one row or score for each example, and rows that are chosen already."""

    rows: Rows
    """One for each example of the pool: (n, d), two factors (`Outer`), or scores (n,)."""
    centers: Tensor | None = None
    """Rows of what is labelled, (m, d), for selectors that keep away from it."""
    weights: Tensor | None = None
    """How much each example of the pool counts, (n,), for selectors that weigh; None: all alike."""


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Answers a request with picks: `query(request, n)`, behind one `select`. Its settings are its fields.

    What factors into rows and a selector is an `Embedding`; what does not is a Strategy of its own.
    """

    called: ClassVar[str] = ""
    """The name that a class has in the catalogue, which enters it there; a subclass has one of its own, or none."""

    head: Head = None
    """The layer whose input is the feature, by name, or a function (model, inputs) -> features (n, d); None: the last
    linear or 1x1 convolution."""
    outputs: Read | None = None
    """A function from what the model returns to its output tensor; None: that tensor, the first of several, or
    `logits`."""
    memory_bytes: int | None = None
    """The most memory for rows, buffers and selectors together: large rows go to a file, and what does not fit is an
    error before the work; None: half of what is free."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be; a subclass calls this, then looks at its own."""
        if self.outputs is not None and not callable(self.outputs):
            raise TypeError(
                f"outputs is a function from what the model returns to a tensor; got {self.outputs!r}"
            )
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise ValueError(f"memory_bytes is a number of bytes above 0; got {self.memory_bytes}")

    @abstractmethod
    def query(self, request: Request, n: int) -> Picks:
        """Choose n examples of the pool of a `request`."""

    @abstractmethod
    def embedding(self, request: Request) -> Embedded:
        """What it chooses by, for `embed`: a row or a score for each example of the pool of a `request`."""

    def costs(self, request: Request, n: int | None) -> Costs:
        """What a query would take, told before the work; one pass unless a strategy says otherwise.

        Args:
            request: The call; only a couple of its examples may go through the model for this.
            n: How many are to be picked; None: rows alone.
        """
        return Costs(passes=len(request.pool))

    @property
    def spoken(self) -> str:
        """What it is called in messages: as the catalogue does, or by its class."""
        return (
            str(vars(type(self)).get("called", "") or getattr(self, "method", ""))
            or re.sub("(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()
        )

    def scoring_seconds(self, rehearsal: Rehearsal, costs: Costs) -> float:
        """How long scoring would take, reading left out.

        Args:
            rehearsal: A few micro-batches to try.
            costs: What the query would take.
        """
        return costs.passes * rehearsal.seconds(rehearsal.request.network.outputs)

    def selecting_seconds(self, request: Request, costs: Costs, n: int) -> float:
        """How long selection would take; 0 where that cannot be told.

        Args:
            request: The call.
            costs: What the query would take.
            n: How many are to be picked.
        """
        return 0.0

    def check_costs(self, request: Request, n: int | None) -> None:
        """An error where a call would take more memory than it may, before the work.

        Args:
            request: The call.
            n: How many are to be picked; None: rows alone.
        """
        try:
            costs = self.costs(request, n)
        except Refused:
            raise
        except (ValueError, TypeError):
            return  # what cannot be asked is for the work itself to refuse, in its own words
        costs.check(self.spoken, request.room)

    def join(self, model: nn.Module, example: Inputs, seed: int) -> Joined:
        """Take part in training; learning loss does, all others train the model alone.

        Args:
            model: What is trained.
            example: A couple of inputs, which show the shapes of the model's layers.
            seed: What the weights of added parts follow from.
        """
        return Joined(model)

    @with_options(Options, DEFAULTS)
    def select(self, model: nn.Module, pool: Any, n: int, **options: Unpack[Options]) -> Query:
        """Choose n examples of the pool; the model and the global random state stay as they were.

        Args:
            model: Any `nn.Module` that gives logits; a private copy of it is scored, in eval mode.
            pool: What to choose from: a tensor or array (n, ...), a dict of these, a dataset, list or data loader.
            n: How many to pick, at most the pool less the excluded.
        """
        where = engine(options.get("engine"))
        if where is not None:
            return self.select_on(where, model, pool, n, options)
        inputs = Pool.of(pool, options.get("collate_fn"), options.get("num_workers", 0))
        candidates = inputs.without(options.get("exclude"))
        n = check_count(n, candidates, inputs)

        def ask(request: Request) -> Query:
            self.check_costs(request, n)
            picks = self.query(request, n)
            indices = candidates.positions[picks.positions.cpu()].numpy()
            scores = picks.scores.double().cpu().numpy()
            return Query(indices, scores, request.seconds, request.seed, request.passes, tuple(request.notes))

        return self.answer(ask, model, inputs, options)

    def select_on(self, where: Ray, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """Choose on a cluster, which not every strategy can.

        Args:
            where: The cluster.
            model: As `select` takes it.
            pool: As `select` takes it.
            n: As `select` takes it.
            options: Those of the call.
        """
        raise ValueError(self.needs_whole_pool)

    @property
    def needs_whole_pool(self) -> str:
        """Why shards of a pool cannot be scored apart, and what to use instead."""
        return (
            f"{self.spoken} looks at the pool as a whole, which lies in shards on a "
            f"cluster: leave engine= out, or use one of {', '.join(INSTEAD)}"
        )

    @with_options(Options, DEFAULTS)
    def plan(self, model: nn.Module, pool: Any, n: int, **options: Unpack[Options]) -> Plan:
        """What `select` would take, without doing the work: passes, time, memory, and what would be cheaper.

        A few micro-batches are read and timed. What `select` would refuse for want of memory is refused here too.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            n: How many would be picked.
        """
        inputs = Pool.of(pool, options.get("collate_fn"), options.get("num_workers", 0))
        n = check_count(n, inputs.without(options.get("exclude")), inputs)
        return self.answer(lambda request: planned(self, request, n), model, inputs, options)

    @with_options(Options, DEFAULTS)
    def embed(self, model: nn.Module, pool: Any, **options: Unpack[Options]) -> Rows:
        """The rows or scores that `select` would choose by, of the whole pool less the excluded.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
        """

        if options.get("engine") is not None:
            raise ValueError(
                "rows of a cluster stay on its nodes, where select picks among them: to have rows, leave engine= out"
            )

        def ask(request: Request) -> Rows:
            self.check_costs(request, None)
            return self.embedding(request).rows

        return self.answer(ask, model, pool, options)

    def answer(self, ask: Callable[[Request], T], model: nn.Module, pool: Any, options: Options) -> T:
        """What `ask` makes of a request; asked once more where the model turned out to write into its inputs.

        Args:
            ask: Called with the request.
            model: As `select` takes it.
            pool: As `select` takes it.
            options: Those of `select`.
        """
        try:
            with self.request(model, pool, **options) as request:
                return ask(request)
        except Overwritten:
            with self.request(model, pool, careful=True, **options) as request:
                return ask(request)

    def request(
        self, model: nn.Module, pool: Any, *, careful: bool = False, **options: Unpack[Options]
    ) -> AbstractContextManager[Request]:
        """A request for a while, as `query` and `embedding` get it, for those who want to look inside.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            careful: Take it that the model writes into what it is given.
            options: Those of `select`.
        """
        return requested(model, pool, options, self.head, self.outputs, careful, self.memory_bytes)
