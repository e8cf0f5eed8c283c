"""Noise stability (Li et al., AAAI 2024): pick examples whose outputs change most, and differently, under noise."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from jostle.embeddings.deviations import Deviations
from jostle.inference.context import split_options
from jostle.selectors import KCenter, longest
from jostle.strategies.registry import register

PAPER = "Li et al., Deep Active Learning with Noise Stability, AAAI 2024"
COST = "K + 1 forward passes, then O(n K d) per pick at worst"


@register(
    "noise-stability",
    gist="largest, most different changes under weight noise",
    formula="sqrt(P/K) / (zeta ||theta||) (f(x; theta + zeta ||theta|| u_k) - f(x; theta)), k = 1..K; greedy k-center",
    needs=("weights",),
    cost=COST,
    paper=PAPER,
    when="to reproduce the paper or compare with it: it needs no labels, no dropout and no extra training, on any task",
)
@dataclass(frozen=True, kw_only=True)
class NoiseStability(Deviations):
    """Perturb the parameters K times and record how every output deviates; deviations are projections of the model's
    gradient. Greedy k-center from the origin then picks examples whose deviations are large and differ from each other.

    Example:
        >>> import jostle, torch
        >>> strategy = jostle.NoiseStability(num_perturbations=10)
        >>> query = strategy.select(torch.nn.Linear(4, 3), torch.randn(50, 4), n=5, seed=0)
        >>> len(query)
        5
    """


register(
    "noise-stability-relative",
    gist="deviations relative to the clean output",
    idea="Divides each deviation by the length of the clean output. The paper's published code does so, its text does "
    "not.",
    formula="noise-stability's rows over ||f(x; theta)||; greedy k-center",
    needs=("weights",),
    cost=COST,
    paper=PAPER,
    when="to compare with the published code on a regression, where it has less error than noise-stability",
)(partial(NoiseStability, normalize=True))

register(
    "noise-stability-m",
    gist="ablation of noise-stability: lengths of deviations only",
    idea="An ablation of the paper without diversity. Picks the largest deviations, similar or not.",
    formula="largest row length of noise-stability",
    needs=("weights",),
    cost=COST,
    paper=PAPER,
    when="to measure the effect of diversity, or to label one example at a time",
)(partial(NoiseStability, selector=longest))

register(
    "noise-stability-d",
    gist="ablation of noise-stability: directions of deviations only",
    idea="An ablation of the paper without size. Scales rows to unit length before greedy k-center.",
    formula="noise-stability's rows over their lengths; first pick drawn with the seed, then farthest first",
    needs=("weights",),
    cost=COST,
    paper=PAPER,
    when="to measure the effect of the size of deviations",
)(partial(NoiseStability, selector=KCenter(unit=True, origin=False)))


def deviations(model: nn.Module, pool: Any, **options: Any) -> Tensor:
    """Return the deviations of every example under K perturbations, (n, K * d), without picking.

    Args:
        model: As `select` takes it.
        pool: As `select` takes it.
        options: Those of `select`, and settings of `NoiseStability`.

    Returns:
        One row for each example of the pool less the excluded, d numbers for each of K perturbations.

    Example:
        >>> import jostle, torch
        >>> model = torch.nn.Linear(4, 3)
        >>> jostle.deviations(model, torch.randn(10, 4), num_perturbations=2, seed=0).shape
        torch.Size([10, 6])
    """
    call, settings = split_options(options)
    rows = NoiseStability(**settings).embed(model, pool, **call)
    assert isinstance(rows, Tensor)
    return rows
