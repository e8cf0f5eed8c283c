"""Slow and plain versions in float64, against which the selectors are checked."""

import itertools
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
from torch import Tensor

from jostle.selectors import Picks, tie_keys


def distances(rows: Tensor, others: Tensor) -> Tensor:
    differences = rows.double()[:, None] - others.double()[None]
    return differences.square().sum(2).sqrt()  # (n, m)


def assert_farthest_first(rows: Tensor, picks: Picks, centers: Tensor | None = None) -> None:
    """Every pick is within 1e-5 of the farthest row at its step, none comes twice, and scores are true gaps."""
    positions = picks.positions.tolist()
    assert len(set(positions)) == len(positions)
    assert picks.positions.dtype == torch.int64
    assert picks.scores.dtype == torch.float64
    rows = rows.double()
    gaps = distances(rows, torch.zeros(1, rows.shape[1]) if centers is None else centers).amin(1)
    for position, score in zip(positions, picks.scores.tolist(), strict=True):
        largest, gap = gaps[gaps >= 0].max().item(), gaps[position].item()
        assert gap >= largest * (1 - 1e-5), f"picked a gap of {gap} where {largest} was to be had"
        assert abs(score - gap) <= 1e-5 * largest
        gaps = torch.minimum(gaps, distances(rows, rows[[position]])[:, 0])
        gaps[positions[: positions.index(position) + 1]] = -1


def plain_k_center(rows: Tensor, n: int, seed: int) -> list[int]:
    """Plain greedy from the origin, ties to the smallest key; exact on small whole numbers."""
    gaps, picks, keys = rows.double().square().sum(1), [], tie_keys(seed, torch.arange(len(rows))).tolist()
    for _ in range(n):
        picks.append(min((gaps == gaps.max()).nonzero()[:, 0].tolist(), key=lambda position: keys[position]))
        gaps = torch.minimum(gaps, (rows - rows[picks[-1]]).double().square().sum(1))
        gaps[picks] = -1
    return picks


def sequence_probabilities(n: int, count: int, weights: Callable[[tuple[int, ...]], Tensor]) -> dict:
    """Probability of every ordered draw of n, where `weights(drawn)` gives the next one's weights."""
    found = {(): 1.0}
    for _ in range(n):
        grown = {}
        for drawn, probability in found.items():
            share = weights(drawn) / weights(drawn).sum()
            grown |= {(*drawn, i): probability * float(share[i]) for i in range(count) if share[i] > 0}
        found = grown
    return found


def assert_frequencies(counts: Tensor, probabilities: Tensor, draws: int) -> None:
    """Frequencies within five standard deviations; what cannot happen did not."""
    deviations = (probabilities * (1 - probabilities) / draws).sqrt()
    assert ((counts / draws - probabilities).abs() <= 5 * deviations + 1e-12).all(), (
        counts / draws,
        probabilities,
    )


def determinants(rows: Tensor, k: int) -> dict[tuple[int, ...], float]:
    """Probability of every k-subset under the k-DPP, by enumeration."""
    kernel = rows.double() @ rows.double().T
    subsets = list(itertools.combinations(range(len(rows)), k))
    volumes = torch.stack([torch.linalg.det(kernel[list(s)][:, list(s)]).clamp(min=0) for s in subsets])
    return dict(zip(subsets, (volumes / volumes.sum()).tolist(), strict=True))


@contextmanager
def tiny_blocks():
    """Block sizes so small that a few dozen rows meet every seam of the blocked algorithms."""
    sizes = {
        "selectors.shards": {"CENTERS_PER_BLOCK": 5, "LOOK_COST": 40, "PASS_COST": 1},
        "rows.geometry": {"BLOCK_NUMBERS": 64},
        "selectors.k_center": {"MIN_CANDIDATES": 3, "MAX_CANDIDATES": 7},
        "selectors.k_means_pp": {"MAX_STEPS": 8, "CLOCKS_PER_DRAW": 1.0, "MAX_ARRIVALS": 2},
        "selectors.k_dpp": {"PROPOSALS": 3},
    }
    with ExitStack() as stack:
        for name, constants in sizes.items():
            stack.enter_context(mock.patch.multiple(sys.modules[f"jostle.{name}"], **constants))
        yield
