"""The default: the strategy of `jostle pick`, `jostle label` and newcomers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jostle.core import Embedded, Strategy
from jostle.inference.context import QueryContext
from jostle.selectors import Picks
from jostle.strategies.features import TypiClust
from jostle.strategies.herding import FEW_CANDIDATES, LinearHerding, NoiseHerding
from jostle.strategies.registry import register


def default_for(task: str, linear: bool = False) -> str:
    """Return the name of the strategy that `default` stands for.

    Args:
        task: The name of the task.
        linear: Whether all parameters of the model belong to its head.
    """
    if task == "regression":
        return "typiclust"
    return "linear-herding" if linear else "noise-herding"


def is_linear(context: QueryContext) -> bool:
    """Return whether all parameters of the model belong to its head; False where features are a function."""
    runner = context.runner
    if callable(runner.given_head) or (runner.given_head is None and runner.likely_head is None):
        return False
    own = {id(each) for each in runner.module.get_submodule(runner.head).parameters()}
    return all(id(each) in own for each in runner.module.parameters())


@register(
    "default",
    gist="the strategy that suits the task and the model",
    formula="noise-herding; linear-herding for a linear model; typiclust for a regression",
    needs=("weights", "probabilities"),
    cost="a linear model or a regression: one forward pass; others: one, and 21 over 20 candidates for each pick and "
    "the labeled set",
    paper="of this package: docs/research/default-confirmation.md",
    when="you do not know better: it serves every task, with and without labels",
)
@dataclass(frozen=True, kw_only=True)
class Default(Strategy):
    """A choice of three strategies: noise-herding, linear-herding for a linear model, and typiclust for a regression.
    A linear model is one whose parameters all belong to its last layer.
    """

    candidates_per_pick: int = 20
    """Candidates for each pick, those of the smallest margins; a regression has none."""
    num_perturbations: int = 20
    """K, how often the parameters are perturbed; a linear model and a regression need no perturbations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.chosen("noise-herding")  # impossible settings are an error now

    def chosen(self, name: str) -> Strategy:
        """Return the strategy of this `name`, one of the three, with these settings."""
        count = self.candidates_per_pick
        made: Strategy = TypiClust()
        if name == "linear-herding":
            made = LinearHerding(selector=replace(FEW_CANDIDATES, candidates=count))
        elif name == "noise-herding":
            made = NoiseHerding(candidates_per_pick=count, num_perturbations=self.num_perturbations)
        return replace(made, head=self.head, outputs=self.outputs, memory_bytes=self.memory_bytes)

    def resolve(self, context: QueryContext) -> Strategy:
        """Return the strategy for the task and the model of the `context`."""
        return self.chosen(default_for(context.task.name, is_linear(context)))

    def query(self, context: QueryContext, n: int) -> Picks:
        """Choose with the strategy for the task and the model."""
        return self.resolve(context).query(context, n)

    def embedding(self, context: QueryContext) -> Embedded:
        """Rows or scores of the strategy for the task and the model."""
        return self.resolve(context).embedding(context)
