"""Noise herding: among the examples that the model is unsure of, cover the ways in which outputs deviate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate
from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.selectors import Herding, Picks
from jostle.strategies.candidates import Shortlist, Shortlisting, deviation_estimate, deviations
from jostle.strategies.herding import GAIN
from jostle.strategies.registry import ANY_TASK, register


@register(
    "noise-herding",
    gist="what is unsure, covered by how outputs deviate",
    formula=GAIN
    + "d between deviations under K perturbations, at unit length; w = (1 - (p_(1) - p_(2)))^2; width the median "
    "distance of a labeled example to the next",
    needs=("weights", "probabilities"),
    tasks=ANY_TASK,
    cost="one forward pass, K over the 20 n smallest margins and the labeled set, then kernels of these",
    paper="of this package: noise stability (Li et al., AAAI 2024) as the kernel of uncertainty herding (Bae et al., "
    "ICLR 2025)",
    when="any task, any number of labels, any size of batch",
)
@dataclass(frozen=True, kw_only=True)
class NoiseHerding(Shortlisting):
    """Examples count by how small their margin is, and two of them are alike if perturbations of the parameters
    move their outputs alike. Each pick covers most of what is unsure and unlike all that is labeled or picked.

    Only the examples with the smallest margins are perturbed, so that a large pool costs a few passes. A regression
    has no margins: all examples count alike, of a large pool those drawn with the seed.
    """

    num_perturbations: int = 20
    """K, how often the parameters are perturbed."""
    power: float = 2.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""
    width: float | str = "median"
    """Of the kernel: a distance between rows of unit length, or as `Herding` finds it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Herding(width=self.width)  # a word that it does not know shows now
        if self.num_perturbations < 1 or not self.power > 0:
            raise ValueError(
                f"num_perturbations must be at least 1 and power above 0; got {self.num_perturbations} and {self.power}"
            )

    def rows(self, context: QueryContext, *pools: Pool) -> Tensor:
        """Return the rows that examples are compared by: deviations under the same perturbations, (n, K d)."""
        return deviations(context, self.num_perturbations, *pools)

    def embedding(self, context: QueryContext) -> Embedded:
        """How the output of each example moves, (n, K d), and that of labeled ones."""
        return Embedded(*context.split(self.rows(context, *context.pools)))

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """One pass over the pool, then deviations of the candidates and of the labeled set."""
        size, known = len(context.pool), sum(map(len, context.pools[1:]))
        if n is None:
            return deviation_estimate(context, self.num_perturbations, size + known)
        kept = self.candidate_count(context, size, n)
        made = deviation_estimate(context, self.num_perturbations, kept + known)
        room = self.picker(context).room(kept, made.width, n)
        return replace(made, passes=made.passes + self.looked_at(context, size, kept), selecting=room)

    def picker(self, context: QueryContext) -> Herding:
        """Herding with a kernel of this width, whatever the `context`."""
        return Herding(width=self.width)

    def among(self, context: QueryContext, short: Shortlist, n: int) -> Picks:
        """Perturb the candidates, and cover them."""
        kept = short.places
        with context.timed("embedding"):
            moved = self.rows(context, context.pool.take(kept), *context.pools[1:])
        with context.selecting(n):
            rows, known = moved[: len(kept)], moved[len(kept) :]
            weights = torch.ones(len(kept)) if short.doubts is None else short.doubts.pow(self.power)
            centers = known if len(known) else None
            picks = self.picker(context).pick(rows, n, centers=centers, weights=weights, seed=context.seed)
            return picks.at(kept)
