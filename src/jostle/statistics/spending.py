"""Shares of alpha for the models that one audit measures.

Each model is one more claim about the same audited answers. If the r-th model gets the share alpha_r and the shares
sum to alpha, all intervals of all models hold together with probability 1 - alpha. A share must be chosen without any
audit answer: from predictions, training answers and the goal. Then most of alpha can go to the few models that are
likely to prove the goal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jostle.statistics.confidence import ALPHA

RESERVE = 0.1  # share of alpha for models that are not candidates
CANDIDATE_MARGIN = 0.9  # of the error that the goal allows


def is_candidate(expected: ArrayLike, goal: float, margin: float = CANDIDATE_MARGIN) -> bool:
    """Return whether a model expects to meet the goal with a margin, which makes it worth a proof.

    Args:
        expected: (N,) the model's chances of being wrong on the examples that are left, from training answers alone.
        goal: Largest mean error that counts as proven.
        margin: Share of that error which the mean chance may use up.
    """
    return bool(np.mean(np.asarray(expected, dtype=np.float64)) <= margin * goal)


def spend_alpha(candidates: Sequence[bool], alpha: float = ALPHA, reserve: float = RESERVE) -> list[float]:
    """Return the share of alpha of each model, in the order of training.

    The k-th candidate gets (1 - reserve) alpha 6 / (pi k)^2, and the k-th other model reserve alpha 6 / (pi k)^2. The
    shares of any number of models sum to less than alpha, and later models never change earlier shares.

    Args:
        candidates: Whether each model is a candidate for a proof. Audit answers must not decide this.
        alpha: Probability that any interval of any model misses.
        reserve: Share of alpha for the models that are not candidates.
    """
    if not 0 <= reserve <= 1:
        raise ValueError(f"reserve must be between 0 and 1, got {reserve}")
    counts = {True: 0, False: 0}
    shares = []
    for candidate in map(bool, candidates):
        counts[candidate] += 1
        part = 1 - reserve if candidate else reserve
        shares.append(part * decay(counts[candidate], alpha))
    return shares


def decay(rank: int, alpha: float = ALPHA) -> float:
    """Return the share of alpha for the rank-th model if all models count alike: alpha 6 / (pi rank)^2."""
    if rank < 1:
        raise ValueError(f"rank must be 1 or more, got {rank}")
    return 6 * alpha / (math.pi * rank) ** 2
