"""The default: the strategy of `jostle pick` and of newcomers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from jostle.core import Embedded, Strategy
from jostle.inference.context import QueryContext
from jostle.selectors import Picks
from jostle.strategies.registry import ANY_TASK, build, register

REGRESSION = "flip-cover"  # chosen by benchmark: docs/research/benchmark.md
OTHERS = "noise-herding"


def default_for(task: str) -> str:
    """The strategy that `default` stands for in a task."""
    return REGRESSION if task == "regression" else OTHERS


@register(
    "default",
    gist="the strategy that the benchmark chose for the task",
    formula="noise-herding; flip-cover for a regression",
    needs=("weights", "probabilities"),
    tasks=ANY_TASK,
    cost="one forward pass, and 20 (a regression: 30) over 20 candidates for each pick and the labeled set",
    paper="of this package: docs/research/benchmark.md",
    when="you do not know better: it serves every task, with and without labels",
)
@dataclass(frozen=True, kw_only=True)
class Default(Strategy):
    """Another name for the strategies that the benchmark chose: noise-herding, and flip-cover for a regression. Both
    perturb only the examples that the model is unsure of, and cover them.
    """

    candidates_per_pick: int = 20
    """Candidates for each pick, those of the smallest margins; a regression draws them, at least 2,048."""
    num_perturbations: int | None = None
    """K, how often the parameters are perturbed; None: 20, and 30 for a regression."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for task in ("classification", "regression"):
            self.chosen(task)  # impossible settings are an error now

    def chosen(self, task: str) -> Strategy:
        """The strategy for a `task`, with these settings."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return build(
            default_for(task), **{name: value for name, value in settings.items() if value is not None}
        )

    def resolve(self, context: QueryContext) -> Strategy:
        """The strategy for the task of the `context`."""
        return self.chosen(context.task.name)

    def query(self, context: QueryContext, n: int) -> Picks:
        """Choose with the strategy for the task."""
        return self.resolve(context).query(context, n)

    def embedding(self, context: QueryContext) -> Embedded:
        """Scores of the strategy for the task."""
        return self.resolve(context).embedding(context)
