"""Noise stability (Li et al., AAAI 2024): jostle the weights, label what moves."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn

from jostle.embeddings.deviations import Deviations
from jostle.scoring.options import split_options
from jostle.selectors import KCenter, longest
from jostle.strategies.catalogue import ANY_TASK, register

PAPER = "Li et al., Deep Active Learning with Noise Stability, AAAI 2024"
COST = "K + 1 forward passes, then O(n K d) per pick at worst"
RACED = "K + 1 forward passes at most, a fraction of them where jolts race, then O(n K d) per pick at worst"


@register(
    "noise-stability",
    gist="jostle the weights, take what moves most and apart",
    formula="sqrt(P/K) / (scale ||theta||) (f(x; theta + jolt_k) - f(x; theta)), k = 1..K; greedy k-center",
    needs=("weights",),
    tasks=ANY_TASK,
    cost=RACED,
    paper=PAPER,
    when="the first thing to try: it needs no labels, no dropout and no extra training, on any task",
)
@dataclass(frozen=True, kw_only=True)
class NoiseStability(Deviations):
    """Nudge the parameters K times and watch every output; movements are projections of the model's gradient.
    Greedy k-center from the origin then takes examples whose movements are large and unlike each other.
    """

    method: ClassVar[str] = "noise-stability"


register(
    "noise-stability-relative",
    gist="movements relative to the clean output",
    idea="Movements relative to what moves: each is divided by the length of the clean output. Not the paper's text, "
    "but part of its published code.",
    formula="noise-stability's rows over ||f(x; theta)||; greedy k-center",
    needs=("weights",),
    cost=RACED,
    paper=PAPER,
    when="outputs differ much in size, as in a regression: clearly better than noise-stability on housing prices",
)(partial(NoiseStability, normalize=True))

register(
    "noise-stability-m",
    gist="its ablation: lengths of movements only",
    idea="The ablation that looks at lengths only. It takes the examples that move most, alike or not.",
    formula="largest row length of noise-stability",
    needs=("weights",),
    cost=RACED,
    paper=PAPER,
    when="to see what diversity adds, or to label one example at a time",
)(partial(NoiseStability, selector=longest))

register(
    "noise-stability-d",
    gist="its ablation: directions of movements only",
    idea="The ablation that looks at directions only. Rows are scaled to unit length before greedy k-center.",
    formula="noise-stability's rows over their lengths; first pick drawn with the seed, then farthest first",
    needs=("weights",),
    cost=COST,
    paper=PAPER,
    when="to see what the size of movements adds",
)(partial(NoiseStability, selector=KCenter(unit=True, origin=False)))


def deviations(model: nn.Module, pool: Any, **options: Any) -> Tensor:
    """Movements of every example under K jolts, (n, K * d), without choosing.

    Args:
        model: As `select` takes it.
        pool: As `select` takes it.
        options: Those of `select`, and settings of `NoiseStability`.
    """
    call, settings = split_options(options)
    rows = NoiseStability(**settings).embed(model, pool, **call)
    assert isinstance(rows, Tensor)
    return rows
