"""The largest scores, and the longest rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rng import bits_at, derive, fresh_seed
from jostle.rows.geometry import Rows
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    block_room,
    check_pickable,
    checked_rows,
    checked_scores,
)
from jostle.selectors.shards import Here, Largest, Shards

SORTING = 8 * WORD  # bytes for each score that is put in order


@dataclass(frozen=True)
class TopK(Selector):
    """Takes the largest scores, (n,) or (n, 1); the seed decides ties. Centers play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n largest; equal seeds give equal picks."""
        return self.pick_over(Here.of(checked_scores(rows)), n, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick the n largest of all shards."""
        return largest(shards, n, seed, lengths=False)

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """All are sorted."""
        return size

    def room(self, size: int, width: int, n: int) -> int:
        """What decides among equal scores, and all sorted."""
        return SORTING * size


@dataclass(frozen=True)
class Longest(Selector):
    """Takes the longest rows; a pick's score is its length. The seed decides ties; centers play no part."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n longest; equal seeds give equal picks."""
        rows, _ = checked_rows(rows, n)
        return self.pick_over(Here.of(rows), n, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick the n longest of all shards."""
        return largest(shards, n, seed, lengths=True)

    def effort(self, size: int, width: int, n: int, known: int = 0) -> float:
        """One pass, and all are sorted."""
        return size

    def room(self, size: int, width: int, n: int) -> int:
        """Lengths of all rows, and them sorted."""
        return (SORTING + 3 * WORD) * size + block_room(size, width)

    def reach(self, rows: Rows, n: int) -> float | None:
        """The n-th longest row's length."""
        return float(self.pick(rows, n).scores[-1])


def largest(shards: Shards, n: int, seed: int | None, lengths: bool) -> Picks:
    """The n largest of what all shards have, merged by score and, of equal ones, by what the seed says."""
    check_pickable(n, len(shards))
    key = derive(fresh_seed() if seed is None else seed, "ties")
    found: list[Largest] = shards.ask("largest", n, key, lengths)
    scores, ties, places = (torch.cat(column) for column in zip(*found, strict=True))
    order = ties.argsort()
    order = order[scores[order].sort(descending=True, stable=True).indices][:n]
    return Picks(places[order], scores[order].to(torch.float64))


def largest_first(scores: Tensor, seed: int) -> Tensor:
    """All positions, (n,), from the largest score to the smallest; ties are drawn, since a pool may be sorted."""
    order = order_of_ties(scores, seed)
    return order[scores[order].sort(descending=True, stable=True).indices]


def order_of_ties(scores: Tensor, seed: int) -> Tensor:
    """All positions, (n,), in a drawn order: of equal scores the first in it comes first."""
    return bits_at(derive(seed, "ties"), torch.arange(len(scores), device=scores.device)).argsort()


top_k = TopK()
longest = Longest()
