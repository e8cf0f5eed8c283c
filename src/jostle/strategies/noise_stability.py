"""Noise stability (Li et al., AAAI 2024): jostle the weights, label what moves."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from jostle.embeddings.base import Embedded
from jostle.embeddings.deviations import Deviations
from jostle.plumbing.names import look_up
from jostle.scoring.request import Request
from jostle.selectors import KCenter, longest, selector
from jostle.strategies.base import Strategy, split_options
from jostle.strategies.catalogue import ANY_TASK, register

PAPER = "Li et al., Deep Active Learning with Noise Stability, AAAI 2024"
COST = "K + 1 forward passes, then O(n K d) per pick at worst"


@register(
    "noise-stability",
    formula="sqrt(P/K) / (scale ||theta||) (f(x; theta + jolt_k) - f(x; theta)), k = 1..K; greedy k-center",
    tasks=ANY_TASK,
    cost=COST,
    paper=PAPER,
    when="the first thing to try: it needs no labels, no dropout and no extra training, on any task",
)
@dataclass(frozen=True, kw_only=True)
class NoiseStability(Deviations, Strategy):
    """Nudge the parameters K times and watch every output; movements are projections of the model's gradient.
    Greedy k-center from the origin then takes examples whose movements are large and unlike each other.
    """

    start: str = "origin"  # where k-center starts; "labeled": from the movements of the labelled set

    def __post_init__(self) -> None:
        super().__post_init__()
        look_up("start", self.start, {"origin": None, "labeled": None})
        if self.start == "labeled" and not selector(self.selector).uses_centers:
            raise ValueError(
                "start='labeled' needs a selector that starts from given rows, such as k-center; "
                f"{type(selector(self.selector)).__name__} does not look at them"
            )

    def embedding(self, request: Request) -> Embedded:
        """Movements of the pool, and those of the labelled set where k-center starts from them."""
        if self.start == "origin":
            return Embedded(self.rows(request))
        request.needs_labeled("noise-stability with start='labeled'")
        return Embedded(*self.rows_of_both(request))


register(
    "noise-stability-relative",
    idea="Movements relative to what moves: each is divided by the length of the clean output. Not the paper's text, "
    "but part of its published code.",
    formula="noise-stability's rows over ||f(x; theta)||; greedy k-center",
    cost=COST,
    paper=PAPER,
    when="outputs differ much in size, as in a regression: clearly better than noise-stability on housing prices",
)(partial(NoiseStability, normalize=True))

register(
    "noise-stability-m",
    idea="The ablation that looks at lengths only. It takes the examples that move most, alike or not.",
    formula="largest row length of noise-stability",
    cost=COST,
    paper=PAPER,
    when="to see what diversity adds, or to label one example at a time",
)(partial(NoiseStability, selector=longest))

register(
    "noise-stability-d",
    idea="The ablation that looks at directions only. Rows are scaled to unit length before greedy k-center.",
    formula="noise-stability's rows over their lengths; first pick drawn with the seed, then farthest first",
    cost=COST,
    paper=PAPER,
    when="to see what the size of movements adds",
)(partial(NoiseStability, selector=KCenter(unit=True, origin=False)))


def deviations(model: nn.Module, pool: Any, **options: Any) -> Tensor:
    """Movements of every example under K jolts, (n, K * d); takes NoiseStability's settings and `select`'s."""
    call, settings = split_options(options)
    rows = NoiseStability(**settings).embed(model, pool, **call)
    assert isinstance(rows, Tensor)
    return rows
