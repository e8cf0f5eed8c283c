"""The default: what `jostle pick` and newcomers use unless they say otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from jostle.core import Costs, Embedded, Strategy
from jostle.scoring.request import Request
from jostle.selectors import Picks
from jostle.strategies.candidates import LEAST
from jostle.strategies.catalogue import ANY_TASK, register
from jostle.strategies.flip_cover import REGRESSION_JOLTS, FlipCover
from jostle.strategies.jolt_herding import JoltHerding

REGRESSION = "flip-cover"  # chosen in the arena: docs/arena.md tells how, and what else was tried
OTHERS = "jolt-herding"


def default_for(task: str) -> str:
    """The strategy that `default` stands for in a task."""
    return REGRESSION if task == "regression" else OTHERS


def passes_of_default(task: str, pool: int, n: int, labels: int) -> float:
    """Passes over a pool that picking n with so many labels takes: one, and the jolts of what is kept."""
    if task == "regression":
        return (REGRESSION_JOLTS + 1) * (min(pool, max(FlipCover().keep * n, LEAST)) + labels) / pool
    settings = JoltHerding()
    return 1 + (settings.jolts + 1) * (min(pool, settings.keep * n) + labels) / pool


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
        kind = FlipCover if request.task.name == "regression" else JoltHerding
        return kind(head=self.head, outputs=self.outputs)

    def embedding(self, request: Request) -> Embedded:
        """That of the strategy for the task."""
        return self.chosen(request).embedding(request)

    def costs(self, request: Request, n: int | None) -> Costs:
        """Those of the strategy for the task."""
        return self.chosen(request).costs(request, n)

    def query(self, request: Request, n: int) -> Picks:
        """The picks of the strategy for the task."""
        return self.chosen(request).query(request, n)
