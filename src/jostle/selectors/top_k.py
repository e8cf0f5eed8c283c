"""Selectors that look at each row alone: the largest scores, the longest rows, and draws.

`Stochastic` is stochastic acquisition (Kirsch et al., TMLR 2023): chances that grow with any score.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import Rows, blocks, exact_lengths, width
from jostle.selectors.base import (
    WORD,
    Picks,
    Selector,
    block_room,
    check_pickable,
    checked_scores,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.shards import LocalShards, Shard, ShardedSelector, Shards

SORT_BYTES = 8 * WORD  # for each score that is sorted


@dataclass(frozen=True)
class TopK(Selector):
    """Takes the largest scores, (n,) or (n, 1). Centers do not matter.

    Example:
        >>> import jostle, torch
        >>> jostle.top_k(torch.tensor([0.1, 0.9, 0.5]), 2).tolist()
        [1, 2]
    """

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the n largest; the seed draws exact ties."""
        return self.pick_over(LocalShards.of_rows(checked_scores(rows)), n, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick the n largest of all shards."""
        return pick_largest(shards, n, seed, by_length=False)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of tie keys and of sorted scores."""
        return SORT_BYTES * size


@dataclass(frozen=True)
class Longest(ShardedSelector):
    """Takes the longest rows; a pick's score is its length. Centers do not matter."""

    uses_centers = False

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick the n longest of all shards."""
        return pick_largest(shards, n, seed, by_length=True)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of all lengths, and of sorting them."""
        return (SORT_BYTES + 3 * WORD) * size + block_room(size, width)


@dataclass(frozen=True)
class Uniform(Selector):
    """Draws without replacement. Rows and centers do not matter; scores are NaN."""

    uses_centers = False

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick the first n of a random order of all rows, so that a longer list begins with a shorter one."""
        check_pickable(n, len(rows))
        draws = generator(seed_or_fresh(seed), "uniform")
        order = torch.randperm(len(rows), generator=draws, device=draws.device)[:n].to(rows.device)
        return Picks(order, torch.full((n,), torch.nan, dtype=torch.float64, device=rows.device))

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of an order of all rows."""
        return 2 * WORD * size


@dataclass(frozen=True)
class Stochastic(Selector):
    """Draws without replacement by scores, (n,) or (n, 1), so that a batch is less alike than the largest scores.

    Chances are in proportion to score^beta ("power"), exp(beta score) ("softmax") or rank^-beta ("softrank"), the
    largest score having rank 1. A pick's score is its own, without noise. Centers do not matter.
    """

    ranges: ClassVar = {"kind": ("power", "softmax", "softrank"), "beta": "[0, inf)"}
    uses_centers = False

    kind: str = "power"
    """"power": scores are 0 or more, and 0 comes last; "softmax": any scores; "softrank": only their order matters."""
    beta: float = 1.0
    """How much scores matter: 0 is random, a large one takes the largest scores."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed decides the draws."""
        scores = checked_scores(rows).double()
        check_pickable(n, len(scores))
        seed = seed_or_fresh(seed)
        noisy = self.log_chances(scores, seed) + gumbel(scores, generator(seed, "stochastic"))
        positions = largest_first(noisy, seed, n)
        return Picks(positions, scores[positions])

    def log_chances(self, scores: Tensor, seed: int) -> Tensor:
        """Return the logarithm of the chance of each of the `scores`, up to a constant, (n,); the `seed` draws ties."""
        if self.kind == "softmax":
            return self.beta * scores
        if self.kind == "power":
            return log_power(scores, self.beta)
        ranks = torch.empty_like(scores)
        ranks[largest_first(scores, seed)] = torch.arange(1, len(scores) + 1).to(scores)
        return -self.beta * ranks.log()

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of noise, ranks and sorted scores."""
        return 2 * SORT_BYTES * size


def pick_largest(shards: Shards, n: int, seed: int | None, by_length: bool) -> Picks:
    """Pick the n largest scores or longest rows of all shards."""
    check_pickable(n, len(shards))
    seed = seed_or_fresh(seed)
    found = shards.gather(partial(top_scores, n=n, seed=seed, by_length=by_length))
    scores, places = (torch.cat(column) for column in zip(*found, strict=True))
    if len(found) > 1:
        order = largest_first(scores, seed, n, places)
        scores, places = scores[order], places[order]
    return Picks(places, scores.to(torch.float64))


def top_scores(shard: Shard, n: int, seed: int, by_length: bool) -> tuple[Tensor, Tensor]:
    """Return the n largest scores of a shard, or lengths of its rows, and their places, (n,) both."""
    scores = row_lengths(shard) if by_length else checked_scores(shard.rows, shard.places)
    order = largest_first(scores, seed, n, shard.places)
    return scores[order], shard.places[order]


def row_lengths(shard: Shard) -> Tensor:
    """Return the length of each row of a shard, (n,) float64."""
    rows = shard.matrix()
    found = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    for part in blocks(len(rows), per_row=width(rows), of=rows):
        found[part] = exact_lengths(rows[part].to(torch.float64))
    return found.sqrt_()


def largest_first(scores: Tensor, seed: int, n: int | None = None, places: Tensor | None = None) -> Tensor:
    """Return the positions of the n largest scores, (n,), the largest first; the seed draws exact ties.

    Args:
        scores: (size,), without NaN.
        seed: Draws among equal scores.
        n: Number of positions; None: all.
        places: What ties are drawn by, (size,); None: positions.
    """
    kept = torch.arange(len(scores), device=scores.device)
    if n is not None and n < len(scores):
        kept = (scores >= scores.topk(n, sorted=False).values.min()).nonzero()[:, 0]
    order = kept[tie_keys(seed, kept if places is None else places[kept]).argsort()]
    return order[scores[order].sort(descending=True, stable=True).indices][:n]


def order_of_ties(scores: Tensor, seed: int) -> Tensor:
    """Return all positions, (n,), in a drawn order: of equal scores the first in it comes first."""
    return tie_keys(seed, torch.arange(len(scores), device=scores.device)).argsort()


def log_power(scores: Tensor, beta: float) -> Tensor:
    """Return the logarithm of scores to the power beta, (n,); scores of 0 are as small as numbers get."""
    if not (scores >= 0).all():
        raise ValueError(
            f"draws by a power need scores of 0 or more; got {scores.min().item():g}: use kind='softrank'"
        )
    return beta * scores.clamp(min=torch.finfo(scores.dtype).tiny).log()


def gumbel(scores: Tensor, draws: torch.Generator) -> Tensor:
    """Return Gumbel noise like the scores, (n,); the largest of logarithms with it are draws in proportion."""
    uniform = torch.rand(scores.shape, generator=draws, dtype=scores.dtype, device=draws.device)
    return -(-uniform.clamp(min=torch.finfo(scores.dtype).tiny).log()).log().to(scores.device)


top_k = TopK()
longest = Longest()
uniform = Uniform()
stochastic = Stochastic()
