"""Candidates: the few examples of a large pool among which a strategy chooses, so that only they are perturbed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Embedding, Estimate, Strategy
from jostle.embeddings.deviations import Deviations, moves_features
from jostle.embeddings.uncertainty import Margin, small_margin
from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.selectors import Picks, Selector
from jostle.selectors.top_k import largest_first
from jostle.tasks import CLASS_TASKS

OfLargest = Callable[[int], tuple[Tensor, Tensor]]  # count -> places, ascending, and their scores
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
    """Finds the examples of the smallest margins and chooses among them by their deviations: `among`.

    A regression has no margins: its candidates are drawn. A cluster finds the smallest margins in shards of the pool;
    the candidates are then read and perturbed in this process.
    """

    ranges: ClassVar = {"candidates_per_pick": "[1, inf)"}
    weighs: ClassVar[bool] = True
    """Whether margins matter to `among` too, so that they are wanted of a pool that is kept as a whole."""

    screen: ClassVar[type[Embedding]] = Margin
    """The scores by which candidates are found; the largest are kept."""

    candidates_per_pick: int = 20
    """Candidates for each pick, those of the smallest margins; a regression draws them, at least 2,048."""

    @abstractmethod
    def among(self, context: QueryContext, short: Shortlist, n: int) -> Picks:
        """Choose n of the examples on a shortlist; picks are places of the `context`'s pool."""

    @abstractmethod
    def picker(self, context: QueryContext) -> Selector:
        """Return the selector among the candidates of a `context`."""

    @abstractmethod
    def number(self, context: QueryContext) -> int:
        """Return K, the number of perturbations in a `context`."""

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """One pass over the pool, then deviations of the candidates and of the labeled set."""
        size, known = len(context.pool), sum(map(len, context.pools[1:]))
        kept = size if n is None else self.candidate_count(context, size, n)
        made = deviation_estimate(context, self.number(context), kept + known)
        if n is None:
            return made
        room = self.picker(context).room(kept, made.width, n)
        return replace(made, passes=made.passes + self.looked_at(context, size, kept), selecting=room)

    def query(self, context: QueryContext, n: int) -> Picks:
        """Keep the smallest margins, and choose among them."""
        with context.timed("embedding"):
            size = len(context.pool)
            short = self.shortlist(context, size, n, lambda count: of_smallest_margin(context, count))
        return self.among(context, short, n)

    def shortlist(self, context: QueryContext, size: int, n: int, of_largest: OfLargest) -> Shortlist:
        """Candidates for n picks from a pool of this `size`; `of_largest(count)` finds those of the largest scores."""
        count = self.candidate_count(context, size, n)
        if not context.task.has_classes:
            return Shortlist(drawn(context, size, count))
        if not self.looked_at(context, size, count):
            return Shortlist(torch.arange(size, device="cpu"))
        return Shortlist(*of_largest(count))

    def candidate_count(self, context: QueryContext, size: int, n: int) -> int:
        """How many of `size` examples are candidates for n picks of a `context`."""
        least = 0 if context.task.has_classes else LEAST
        return min(size, max(self.candidates_per_pick * n, least))

    def looked_at(self, context: QueryContext, size: int, count: int) -> int:
        """Of how many of `size` examples margins are wanted, where so many are candidates of a `context`."""
        return 0 if not context.task.has_classes or (count == size and not self.weighs) else size


def of_smallest_margin(context: QueryContext, count: int) -> tuple[Tensor, Tensor]:
    """The most uncertain examples; the seed decides among equals."""
    margins = context.score(small_margin, "margins")
    kept = largest_first(margins, context.seed)[:count].sort().values
    return kept.cpu(), margins[kept]


def drawn(context: QueryContext, size: int, count: int) -> Tensor:
    """Places of so many of `size` examples, in order, drawn with the seed."""
    order = torch.randperm(size, generator=context.rng("candidates", device="cpu"), device="cpu")
    return order[:count].sort().values


def deviations(context: QueryContext, num_perturbations: int, *pools: Pool) -> Tensor:
    """Deviations of all `pools` under the same perturbations, (n, K d).

    Of classes the logits, less their mean, since that changes nothing. Of other tasks the features, or the outputs of
    a linear model, which has no parameters before its head.
    """
    classes = context.task.name in CLASS_TASKS
    space = context.task.logits if classes else "features" if moves_features(context) else "logits"
    rows = Deviations(num_perturbations=num_perturbations, space=space).rows(context, *pools)
    if not classes:
        return rows
    moved = rows.unflatten(1, (num_perturbations, -1)).double()  # (n, K, c)
    relative: Tensor = moved - moved.mean(2, keepdim=True)
    return relative.flatten(1)


def deviation_estimate(context: QueryContext, num_perturbations: int, size: int) -> Estimate:
    """Estimate deviations of `size` examples in memory; those of classes are in double precision and once more."""
    classes = context.task.name in CLASS_TASKS
    if classes:
        d = context.classes
    elif moves_features(context):
        d = context.feature_width
    else:
        d = context.runner.example_outputs[0].numel()
    item = context.row_type.itemsize
    numbers = size * num_perturbations * d
    return Estimate(
        passes=size * (num_perturbations + 1),
        rows=numbers * (8 if classes else item),
        width=num_perturbations * d,
        working=numbers * (8 + item) if classes else 0,
        what=f"deviations of {size:,} examples under {num_perturbations} perturbations, {d:,} numbers each, "
        "and selection",
    )
