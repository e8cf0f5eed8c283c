"""The default: what `jostle pick` and newcomers use unless they say otherwise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from jostle.core import Costs, Embedded, Query, Strategy
from jostle.engines import Ray
from jostle.engines.portions import Candidates
from jostle.scoring.options import Options
from jostle.scoring.rehearsal import Rehearsal
from jostle.scoring.request import Request
from jostle.selectors import Picks
from jostle.strategies.catalogue import ANY_TASK, build, register

REGRESSION = "flip-cover"  # chosen in the arena: docs/arena.md tells how, and what else was tried
OTHERS = "jolt-herding"
SHARED = tuple(field.name for field in fields(Strategy))  # settings that all strategies have


def default_for(task: str) -> str:
    """The strategy that `default` stands for in a task."""
    return REGRESSION if task == "regression" else OTHERS


@register(
    "default",
    gist="what the arena chose for the task",
    formula="jolt-herding; flip-cover for a regression",
    needs=("weights", "probabilities"),
    tasks=ANY_TASK,
    cost="one forward pass, and 20 (a regression: 30) over 20 candidates for each pick and the labelled set",
    paper="of this package: docs/arena.md",
    when="you do not know better: it serves every task, with and without labels",
)
@dataclass(frozen=True, kw_only=True)
class Default(Strategy):
    """Another name for what the arena chose: jolt-herding, and flip-cover for a regression. Both jolt only what the
    model is unsure of, and cover it.
    """

    def chosen(self, request: Request) -> Strategy:
        """The strategy for the request's task."""
        shared = {name: getattr(self, name) for name in SHARED}
        return build(default_for(request.task.name), **shared)

    def embedding(self, request: Request) -> Embedded:
        """That of the strategy for the task."""
        return self.chosen(request).embedding(request)

    def costs(self, request: Request, n: int | None) -> Costs:
        """Those of the strategy for the task."""
        return self.chosen(request).costs(request, n)

    def scoring_seconds(self, rehearsal: Rehearsal, costs: Costs) -> float:
        """Those of the strategy for the task."""
        return self.chosen(rehearsal.request).scoring_seconds(rehearsal, costs)

    def selecting_seconds(self, request: Request, costs: Costs, n: int) -> float:
        """Those of the strategy for the task."""
        return self.chosen(request).selecting_seconds(request, costs, n)

    def query(self, request: Request, n: int) -> Picks:
        """The picks of the strategy for the task."""
        return self.chosen(request).query(request, n)

    def select_on(self, where: Ray, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """The picks of the strategy for the task, which the first examples tell."""
        first = Candidates.of(pool, options).first
        return self.answer(self.chosen, model, first, options).select_on(where, model, pool, n, options)
