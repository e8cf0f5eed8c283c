"""A Strategy answers a query with picks: one `select` for every method."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Unpack, cast, final

import torch
from torch import Tensor, nn

from jostle.core.planning import Plan, plan_query
from jostle.core.query import Query
from jostle.inference.context import DEFAULTS, Options, QueryContext
from jostle.inference.memory import Estimate, Placement, score_estimate
from jostle.inference.reader import ModelInputError, Outputs
from jostle.inference.runner import Head
from jostle.inputs import Inputs, check_count
from jostle.rows.geometry import Rows
from jostle.selectors import Picks, Selector, TopK, Weighing, k_center, selector
from jostle.tasks import TASKS
from jostle.utils.names import check_ranges
from jostle.utils.registry import with_options


@dataclass(frozen=True)
class Embedded:
    """The rows that a strategy chooses by, and rows that are labeled already.

    Example:
        >>> import jostle, torch
        >>> jostle.Embedded(torch.zeros(10, 3)).rows.shape
        torch.Size([10, 3])
    """

    rows: Rows
    """One for each example of the pool: (n, d), two factors (`Outer`), or scores (n,)."""
    centers: Tensor | None = None
    """Rows of the labeled set, (m, d), for selectors that keep away from it."""
    weights: Tensor | None = None
    """The weight of each example of the pool, (n,), for selectors that weigh; None: all alike."""


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Answers a query with picks: `query(context, n)`, behind one `select`. Its settings are its fields.

    A method that factors into rows and a selector is an `Embedding`; any other is a Strategy of its own.

    Example:
        >>> import jostle
        >>> jostle.strategies.build("margin").name
        'margin'
    """

    name: ClassVar[str] = "strategy"
    """The name in the registry and in messages; made of the class's name unless given."""
    serves: ClassVar[tuple[str, ...]] = tuple(TASKS)
    why_not: ClassVar[str] = "use default"
    """The tasks that it serves, and why no others, for the error."""
    ranges: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"memory_bytes": "[1, inf)"}
    """The range of a setting, an interval or words: `{"passes": "[1, inf)"}`."""

    head: Head = None
    """The layer whose input is the feature, by name, or a function (model, inputs) -> features (n, d); None: the last
    linear or 1x1 convolution."""
    outputs: Outputs = None
    """What the model returns: "logits", "probabilities" (it ends in a softmax or sigmoid), or a function from it to the
    tensor of logits; None: logits, in a tensor, the first of several, or `.logits`."""
    memory_bytes: int | None = None
    """The most memory for rows, buffers and selectors together: large rows go to a file, and what does not fit is an
    error before the work; None: half of what is free."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "name" not in vars(cls):
            cls.name = re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    def __post_init__(self) -> None:
        """Refuse impossible settings; a subclass calls this, then checks its own."""
        check_ranges(self)
        if not (self.outputs in (None, "logits", "probabilities") or callable(self.outputs)):
            raise TypeError(
                "outputs must be 'logits', 'probabilities' or a function from what the model returns to a tensor; "
                f"got {self.outputs!r}"
            )

    @abstractmethod
    def query(self, context: QueryContext, n: int) -> Picks:
        """Choose n examples of the pool of a `context`."""

    @abstractmethod
    def embedding(self, context: QueryContext) -> Embedded:
        """Compute a row or a score for each example of the pool of a `context`."""

    def checked_embedding(self, context: QueryContext) -> Embedded:
        """Return what `embedding` gives in a `context`; raise an error where it forgot the `Embedded`."""
        embedded: Any = self.embedding(context)
        if not isinstance(embedded, Embedded):
            raise TypeError(
                f"{self.name}: embedding(context) must return jostle.Embedded(rows); got {type(embedded).__name__}"
            )
        return embedded

    def check_task(self, context: QueryContext) -> None:
        """Raise an error for a `context` whose task the strategy does not serve."""
        if not set(TASKS) <= set(self.serves):  # else the task is not asked for, which takes a pass
            context.check_task(self.name, self.serves, self.why_not)

    def check_scores(self, context: QueryContext) -> None:
        """Raise an error for a `context` with scores of the user's own, unless the strategy can use them."""
        if context.own_scores is not None:
            raise ValueError(
                f"{self.name} takes no scores=: leave them out, or use uncertainty-herding, max-herding or margin"
            )

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Estimate passes and bytes before the work; one pass unless a strategy says otherwise.

        Args:
            context: The context of the query; only a couple of examples may go through the model for this.
            n: The number of picks; None: rows alone.
        """
        return Estimate(passes=len(context.pool))

    def check_memory(self, context: QueryContext, n: int | None) -> None:
        """Raise an error where a query of a `context` would take more memory than it may; n None: rows alone."""
        try:
            estimate = self.estimate(context, n)
        except ModelInputError:
            raise
        except (ValueError, TypeError):
            return  # the work itself refuses it in its own words
        Placement(estimate, context.budget).check(self.name)

    def resolve(self, context: QueryContext) -> Strategy:
        """Return the strategy that answers in a `context`: itself, unless it stands for one of several."""
        return self

    def join(self, model: nn.Module, example: Inputs, seed: int) -> Joined:
        """Take part in training; learning loss does, all others train the model alone.

        Args:
            model: The model in training.
            example: A couple of inputs, which show the shapes of the model's layers.
            seed: The seed of the weights of added parts.
        """
        return Joined(model)

    @with_options(Options, DEFAULTS)
    def select(self, model: nn.Module, pool: Any, n: int, **options: Unpack[Options]) -> Query:
        """Choose n examples of the pool; the model and the global random state stay as they were.

        Args:
            model: Any `nn.Module` that gives logits; a private copy of it is scored, in eval mode.
            pool: The examples to choose from: a tensor or array (n, ...), a dict of these, a dataset, list or data
                loader.
            n: The number of picks, at most the pool less the excluded.
        """
        if options.get("engine") is not None:  # by name: this package does not depend on engines
            engine = import_module("jostle.engines").engine(options["engine"])
            return cast(Query, engine.select(self, model, pool, n, options))
        return self.create_context(model, pool, options).run(lambda context: self.select_in(context, n))

    def select_in(self, context: QueryContext, n: int) -> Query:
        """Choose n examples in a context that exists already, inside its `guard`.

        Args:
            context: The context of the query.
            n: The number of picks.
        """
        n = check_count(n, context.pool, context.pool.source)
        chosen = self.resolve(context)
        chosen.check_task(context)
        chosen.check_scores(context)
        chosen.check_memory(context, n)
        return as_query(context, chosen.name, chosen.query(context, n), n)

    @with_options(Options, DEFAULTS)
    def plan(self, model: nn.Module, pool: Any, n: int, **options: Unpack[Options]) -> Plan:
        """Estimate passes, time and memory of `select`, and name cheaper settings, without doing the work.

        A few micro-batches are read and timed. A query that `select` would refuse for want of memory is refused here
        too.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            n: The number of picks.
        """
        return self.create_context(model, pool, options).run(lambda context: self.plan_in(context, n))

    def plan_in(self, context: QueryContext, n: int) -> Plan:
        """Plan n picks in a context that exists already, inside its `guard`.

        Args:
            context: The context of the query.
            n: The number of picks.
        """
        n = check_count(n, context.pool, context.pool.source)
        return plan_query(self.resolve(context), context, n)

    @with_options(Options, DEFAULTS)
    def embed(self, model: nn.Module, pool: Any, **options: Unpack[Options]) -> Rows:
        """Return the rows or scores that `select` chooses by, of the whole pool less the excluded.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
        """
        if options.get("engine") is not None:
            raise ValueError(
                "rows of a cluster stay on its nodes, where select picks among them: to have rows, leave engine= out"
            )

        return self.create_context(model, pool, options).run(self.rows_in)

    def rows_in(self, context: QueryContext) -> Rows:
        """Return the rows or scores in a context that exists already, inside its `guard`."""
        chosen = self.resolve(context)
        chosen.check_task(context)
        chosen.check_memory(context, None)
        return chosen.checked_embedding(context).rows

    def create_context(self, model: nn.Module, pool: Any, options: Options) -> QueryContext:
        """Build the context of a query of this strategy.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            options: The options of `select`.
        """
        return QueryContext.create(model, pool, options, self.head, self.outputs, self.memory_bytes)

    def context(
        self, model: nn.Module, pool: Any, **options: Unpack[Options]
    ) -> AbstractContextManager[QueryContext]:
        """Open a context as `query` and `embedding` get it, to look inside: `with strategy.context(...) as context`.

        Args:
            model: As `select` takes it.
            pool: As `select` takes it.
            options: The options of `select`.
        """
        return self.create_context(model, pool, options).guard()


def as_query(context: QueryContext, name: str, picks: Picks, n: int) -> Query:
    """Return the query of n distinct `picks` among the pool of a `context`; raise an error where they are not that."""
    positions, size = torch.as_tensor(picks.positions), len(context.pool)
    wrong = ""
    if positions.ndim != 1 or len(positions) != n or len(picks.scores) != n:
        shape = tuple(positions.shape)
        wrong = f"{n} examples with a score each; got positions {shape} and {len(picks.scores)} scores"
    elif len(positions.unique()) != n:
        wrong = f"distinct examples; got {n - len(positions.unique())} more than once"
    elif int(positions.min()) < 0 or int(positions.max()) >= size:
        found = f"{int(positions.min())} to {int(positions.max())}"
        wrong = f"positions 0 to {size - 1} of the pool; got {found}"
    if wrong:
        raise ValueError(f"{name} must pick {wrong}")
    indices, scores = context.pool.positions[positions.cpu()], picks.scores.double().cpu()
    return Query(indices.numpy(), scores.numpy(), context.seconds, context.seed, tuple(context.notes))


class Joined:
    """A model in training, and the parts that a strategy adds to it: by default none.

    The task's own optimizer holds the weights of the model that was joined, `optimizers` those that were added.

    Args:
        model: The model to train, and later to select with.
    """

    learns_losses = False  # then training weighs no classes: the many of a class would look hard to learn

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Optimizers of added parts at the learning rate `lr`, stepped with the task's own and under its schedule."""
        return []

    def loss(self, losses: Tensor, fraction: float) -> Tensor:
        """The term to add to the task's loss.

        Args:
            losses: Those of the batch that `model` saw last, (n,).
            fraction: The fraction of the training that is done, 0 to 1.
        """
        return losses.new_zeros(())


Choice = Selector | str | Callable[..., Any]  # a selector, its name, or a function (rows, n) -> positions


@dataclass(frozen=True, kw_only=True)
class Embedding(Strategy):
    """Computes one row for each example, among which its selector picks: any selector will do.

    A subclass defines `embedding`, the rows; picking among them is written here, once for all.

    Example:
        >>> from dataclasses import dataclass
        >>> import jostle, torch
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Brightness(jostle.Embedding):
        ...     selector: str = "top-k"
        ...     def embedding(self, context):
        ...         return jostle.Embedded(context.outputs().sum(1))
        >>> pool = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
        >>> jostle.select(Brightness(), torch.nn.Identity(), pool, n=1, task="classification").indices.tolist()
        [1]
    """

    shardable: ClassVar[bool] = False
    """Whether a row depends on its own example alone, so that parts of a pool can be scored apart."""

    selector: Choice = k_center
    """How rows become picks: a selector, its name, or a function (rows, n) -> positions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        selector(self.selector)  # an unknown name is an error now, not after the scoring

    @abstractmethod
    def embedding(self, context: QueryContext) -> Embedded:
        """Compute one row for each example of the pool, and centers where the selector starts from some."""

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Estimate the rows of the pool of a `context`; one score from one pass unless a subclass says otherwise."""
        return score_estimate(context)

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Estimate the rows, and n picks among them."""
        rows = self.row_estimate(context)
        if n is None:
            return rows
        return replace(rows, selecting=selector(self.selector).room(len(context.pool), rows.width, n))

    def check_shardable(self, context: QueryContext) -> None:
        """Raise an error for a `context` in which rows would depend on other examples."""

    def check_scores(self, context: QueryContext) -> None:
        """Raise an error for scores of the user's own where the selector neither ranks nor weighs."""
        picker = selector(self.selector)
        if context.own_scores is not None and not isinstance(picker, TopK | Weighing):
            raise ValueError(
                f"{self.name}: the selector {type(picker).__name__} takes no scores=: leave them out, or set selector= "
                "to top-k, herding or explained-variance"
            )

    def embedding_with(self, context: QueryContext, scores: Tensor) -> Embedded:
        """Use scores of the user's own as the rows of a selector that ranks, or the weights of one that weighs.

        Args:
            context: The context of the query.
            scores: One for each example of the pool, (n,).
        """
        if isinstance(selector(self.selector), TopK):
            return Embedded(scores)
        return replace(self.checked_embedding(context), weights=scores)

    @final
    def query(self, context: QueryContext, n: int) -> Picks:
        """Embed, then select."""
        with context.timed("embedding"):
            scores = context.own_scores
            embedded = (
                self.checked_embedding(context) if scores is None else self.embedding_with(context, scores)
            )
        picker = selector(self.selector)
        with context.selecting(n):
            weights = {"weights": embedded.weights} if isinstance(picker, Weighing) else {}
            return picker.pick(embedded.rows, n, centers=embedded.centers, seed=context.seed, **weights)
