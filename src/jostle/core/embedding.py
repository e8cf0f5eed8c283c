"""An Embedding is a strategy that has rows: one row for each example, then a selector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from torch import Tensor

from jostle.core.strategy import Embedded, Strategy
from jostle.inference.context import QueryContext
from jostle.inference.estimate import Estimate, score_estimate
from jostle.selectors import Picks, Selector, TopK, Weighing, k_center, selector

Choice = Selector | str | Callable[..., Any]  # a selector, its name, or a function (rows, n) -> positions


@dataclass(frozen=True, kw_only=True)
class Embedding(Strategy):
    """Computes one row for each example, among which its selector picks: any selector will do.

    A subclass defines `embedding`, the rows; picking among them is written here, once for all.
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
