"""Jolt herding: among the examples that the model is unsure of, cover the ways in which jolts move its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Costs, Embedded
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.movements import jolted, movement_costs, movements
from jostle.inputs import Pool
from jostle.scoring.request import Request
from jostle.scoring.selecting import selecting
from jostle.selectors import Herding, Picks
from jostle.strategies.candidates import Shortlist, Shortlisting
from jostle.strategies.catalogue import ANY_TASK, register
from jostle.strategies.herding import GAIN


@register(
    "jolt-herding",
    gist="what is unsure, covered by how outputs move",
    formula=GAIN
    + "d between movements under K jolts, at unit length; w = (1 - (p_(1) - p_(2)))^2; width the median "
    "distance of a labelled example to the next",
    needs=("weights", "probabilities"),
    tasks=ANY_TASK,
    cost="one forward pass, K over the 20 n smallest margins and the labelled set, then kernels of these",
    paper="of this package: noise stability (Li et al., AAAI 2024) as the kernel of uncertainty herding (Bae et al., "
    "ICLR 2025)",
    when="any task, any number of labels, any size of batch",
)
@dataclass(frozen=True, kw_only=True)
class JoltHerding(Shortlisting):
    """Examples count by how small their margin is, and two of them are alike if jolts of the parameters move their
    outputs alike. Each pick covers most of what is unsure and unlike all that is labelled or picked.

    Only the examples with the smallest margins are jolted, so that it costs little more than one pass. A regression
    has no margins: all examples count alike, of a large pool those drawn with the seed.
    """

    jolts: int = 20
    """K, how often the parameters are nudged."""
    power: float = 2.0
    """Margins are taken to this power, once they are 1 for a tie and 0 for a sure prediction."""
    width: float | str = "median"
    """Of the kernel: a distance between rows of unit length, or as `Herding` finds it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Herding(width=self.width)  # a word that it does not know shows now
        if self.jolts < 1 or not self.power > 0:
            raise ValueError(f"jolts is at least 1 and power above 0; got {self.jolts} and {self.power}")

    def rows(self, request: Request, *pools: Pool) -> Tensor:
        """What examples are compared by: how their outputs move under the same jolts, (n, K d)."""
        return movements(request, self.jolts, *pools)

    def embedding(self, request: Request) -> Embedded:
        """How the output of each example moves, (n, K d), and that of labelled ones."""
        return Embedded(*request.parted(self.rows(request, *request.pools)))

    def costs(self, request: Request, n: int | None) -> Costs:
        """One pass over the pool, then movements of the candidates and of the labelled set."""
        size, known = len(request.pool), sum(map(len, request.pools[1:]))
        if n is None:
            return movement_costs(request, self.jolts, size + known)
        kept = self.candidate_count(request, size, n)
        made = movement_costs(request, self.jolts, kept + known)
        room = self.picker(request).room(kept, made.width, n)
        return replace(made, passes=made.passes + self.looked_at(request, size, kept), selecting=room)

    def jolted(self, request: Request) -> Deviations:
        """K jolts of what moves in the task of the `request`."""
        return jolted(request, self.jolts)

    def picker(self, request: Request) -> Herding:
        """Herding with a kernel of this width, whatever the `request`."""
        return Herding(width=self.width)

    def among(self, request: Request, short: Shortlist, n: int) -> Picks:
        """Jolt the candidates, and cover them."""
        kept = short.places
        with request.timed("embedding"):
            moved = self.rows(request, request.pool.take(kept), *request.pools[1:])
        with selecting(request, n):
            rows, known = moved[: len(kept)], moved[len(kept) :]
            weights = torch.ones(len(kept)) if short.doubts is None else short.doubts.pow(self.power)
            centers = known if len(known) else None
            picks = self.picker(request).pick(rows, n, centers=centers, weights=weights, seed=request.seed)
            return picks.at(kept)
