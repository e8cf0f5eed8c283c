"""k-center over shards in two rounds, whatever n is: within 4 times the best radius, and a certificate says how near.

Each shard picks n rows greedily, then greedy runs on all of these, T. Greedy that stops with a gap g > 2 r* would hold
n + 1 rows pairwise at least g apart, two of which share a center of the best solution, r* its radius: so each round
covers within 2 r*, and both within 4 r*. The gap that greedy would have next on T is at most 2 r*: half of it bounds r*
from below.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from jostle.rows.geometry import Rows, joined, origin, rows_at
from jostle.selectors.base import Picks, Selector
from jostle.selectors.k_center import KCenter
from jostle.selectors.shards import Offer, Shards


class Certificate(NamedTuple):
    """How well picks cover the pool."""

    radius: float
    """The largest distance of any row to its nearest pick, or to where k-center starts."""
    least: float
    """No n picks from the same start have a radius below this."""

    @property
    def factor(self) -> float:
        """The radius is at most so many times the best one."""
        return self.radius / self.least if self.least else float("inf") if self.radius else 1.0

    def __str__(self) -> str:
        return (
            f"every example lies within {self.radius:.4g} of a pick or of the start; no choice of as many has a radius "
            f"below {self.least:.4g}: at most {self.factor:.2f} times the best"
        )


def two_rounds(shards: Shards, selector: Selector, n: int, centers: Rows | None) -> tuple[Picks, Certificate]:
    """n picks of greedy k-center among those that greedy k-center of each shard picks, and how well they cover."""
    if not isinstance(selector, KCenter):
        raise ValueError(f"approximate=True is a way to k-center; the selector is {type(selector).__name__}")
    if centers is None and not selector.origin:
        raise ValueError("approximate=True needs a start: from the origin, or from labelled examples")
    found: list[Offer] = shards.ask("summary", n, centers, selector.unit)
    places = torch.cat([offer.places for offer in found])
    order = places.argsort()
    rows = rows_at(joined([offer.rows for offer in found]), order)
    more = min(n + 1, len(rows))
    greedy = selector.pick(rows, more, centers=centers)
    picks = Picks(places[order][greedy.positions[:n]], greedy.scores[:n])
    chosen = rows_at(rows, greedy.positions[:n])
    start = origin(chosen) if centers is None else centers.to(chosen.dtype)
    shards.tell("begin", joined([start, chosen]), selector.unit, [])
    radius = max(shards.ask("radius"))
    return picks, Certificate(radius, float(greedy.scores[n]) / 2 if more > n else 0.0)
