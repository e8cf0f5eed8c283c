"""Candidates: the few examples of a large pool among which a strategy chooses, so that only they are jolted."""

import torch
from torch import Tensor

from jostle.embeddings.uncertainty import small_margin
from jostle.scoring.request import Request
from jostle.selectors.top_k import largest_first

LEAST = 2048  # drawn at least: without margins nothing tells which of them matter


def of_smallest_margin(request: Request, count: int) -> tuple[Tensor, Tensor]:
    """Positions of the most uncertain examples, in order, and one less their margins."""
    margins = request.score(small_margin, "margins")
    kept = largest_first(margins, request.seed)[:count].sort().values
    return kept.cpu(), margins[kept]


def drawn(request: Request, count: int) -> Tensor:
    """Positions of at least so many examples, in order, drawn with the seed; all of a pool that is not larger."""
    order = torch.randperm(len(request.pool), generator=request.rng("candidates", device="cpu"), device="cpu")
    return order[: max(count, LEAST)].sort().values


def candidate_count(request: Request, count: int) -> int:
    """How many candidates there are for a call that wants so many: what these functions give, told beforehand."""
    return min(len(request.pool), max(count, LEAST if request.task.name == "regression" else 0))
