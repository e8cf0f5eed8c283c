"""Stochastic acquisition (Kirsch et al., TMLR 2023): draw a batch with chances that grow with any score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import Rows
from jostle.selectors.base import Picks, Selector, check_pickable, checked_scores, seed_or_fresh
from jostle.selectors.top_k import SORT_BYTES, largest_first
from jostle.utils.names import look_up


@dataclass(frozen=True)
class Stochastic(Selector):
    """Draws without replacement by scores, (n,) or (n, 1), so that a batch is less alike than the largest scores.

    Chances are in proportion to score^beta ("power"), exp(beta score) ("softmax") or rank^-beta ("softrank"), the
    largest score having rank 1. A pick's score is its own, without noise. Centers do not matter.
    """

    uses_centers = False

    kind: str = "power"
    """"power": scores are 0 or more, and 0 comes last; "softmax": any scores; "softrank": only their order matters."""
    beta: float = 1.0
    """How much scores matter: 0 is random, a large one takes the largest scores."""

    def __post_init__(self) -> None:
        look_up("kind", self.kind, {"power": None, "softmax": None, "softrank": None})
        if not self.beta >= 0:
            raise ValueError(f"beta must be 0 or more; got {self.beta}")

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


stochastic = Stochastic()
