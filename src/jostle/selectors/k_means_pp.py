"""k-means++ seeding as BADGE uses it: the longest row, then rows in proportion to their squared distances.

Draws do not depend on shards. Of independent exponential clocks E_i, the chance that E_i / D_i is the smallest is D_i
over the sum of all D. So each row has a clock at every step, which follows from seed, step and place alone, and the
smallest E_i / D_i is drawn. The clocks of a block of places are the arrivals of one stream: times with exponential
waits, each at a place that is drawn. Only early arrivals are computed, those that some bound of D leaves a chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.rng import GOLDEN, as_uniform, derive, scrambled
from jostle.rows.geometry import Rows
from jostle.selectors.base import WORD, Picks, check_pickable, seed_or_fresh
from jostle.selectors.k_center import CandidateSet, KCenter, join_rounds, pick_farthest
from jostle.selectors.shards import (
    PICKED,
    Candidates,
    KnownDistances,
    Shard,
    ShardedSelector,
    Shards,
)
from jostle.utils.progress import note

MIN_STEPS, MAX_STEPS = 4, 64  # draws that are prepared at once
CLOCKS_PER_DRAW = 8.0  # early clocks to be expected
STALE_SHARE = 0.5  # exact distances below this share of their bounds: all bounds are lowered
MIN_SUM = 1e-300  # keeps a level finite
BLOCK = 32  # places whose clocks are one stream: a power of two below 2^11, the spare bits
MAX_ARRIVALS = 4096  # of a stream that are computed at once
ROUND_UP = 1 + 1e-9  # arrivals this late are still computed, so that rounding never drops one


@dataclass(frozen=True)
class KMeansPP(ShardedSelector):
    """Draws rows in proportion to the squared distance to the nearest center, which is a pick's score.

    Without centers the first pick is the longest row, its score the squared length. Rows that equal a center
    come only when nothing else is left.

    Example:
        >>> import jostle, torch
        >>> rows = torch.tensor([[0.0, 1.0], [3.0, 0.0], [3.0, 0.1]])
        >>> int(jostle.k_means_pp(rows, 2, seed=0)[0])
        2
    """

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows from shards."""
        check_pickable(n, len(shards))
        seed = seed_or_fresh(seed)
        shards.start(centers, False, seed)
        if centers is not None:
            return draw_rows(shards, n, seed)
        longest, length = pick_farthest(shards, 1, False, seed)
        shards.start(shards.collect(longest), False, seed, longest.tolist())
        rest = draw_rows(shards, n - 1, seed)
        return Picks(torch.cat([longest, rest.positions]), torch.cat([length.square(), rest.scores]))

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes that k-center takes, and those of clocks."""
        return KCenter().room(size, width, n) + 4 * WORD * size


class Draws(NamedTuple):
    """Rows of a shard that may be drawn at some steps, and their clocks; other rows are at or above the level."""

    candidates: Candidates
    """The rows and the level."""
    steps: Tensor
    """(k,), counted from the first of the steps."""
    places: Tensor
    """(k,), of candidates."""
    times: Tensor
    """(k,) float64."""


def draw_rows(shards: Shards, n: int, seed: int) -> Picks:
    """Draw n rows from shards that have started, several steps in a round."""
    places, scores = list[Tensor](), list[float]()
    known: KnownDistances | None = None
    ahead, only_copies = MIN_STEPS, False
    key = derive(seed, "k-means++")
    while len(scores) < n:
        steps = min(ahead, n - len(scores))
        keys = torch.tensor([derive(key, "step", len(scores) + step) for step in range(steps)])
        found = shards.gather(partial(draw_candidates, keys=keys, only_copies=only_copies, known=known))
        among = CandidateSet([draws.candidates for draws in found], seed)
        scores += pick_first_clocks(among, found, steps, only_copies)
        note(len(among.winners))
        only_copies = only_copies or not among.winners  # every row that is left equals a center
        rows, picked = among.picked()
        shards.add_centers(rows, picked)
        places.append(picked)
        known = among.known()
        ahead = min(MAX_STEPS, max(MIN_STEPS, 2 * len(among.winners)))
    return join_rounds(places, scores)


def draw_candidates(shard: Shard, keys: Tensor, only_copies: bool, known: KnownDistances | None) -> Draws:
    """Return rows of a shard that may be drawn at some steps; for the first step at least one, if there is any.

    Args:
        shard: The rows.
        keys: One for each step, (steps,).
        only_copies: Draw uniformly: every row that is left equals a center.
        known: Distances that the caller learned.
    """
    bounds = shard.update(known)
    rates = (bounds.values > PICKED).double() if only_copies else bounds.values.clamp(min=0)
    level = CLOCKS_PER_DRAW / float(rates.sum().clamp(min=MIN_SUM))
    while True:
        clocks = exponential_clocks(keys, shard.places, rates, level)
        positions = clocks.positions.unique()
        before = float(bounds.values[positions].sum())
        bounds.measure(positions)
        first = clocks.steps == 0
        exact = rates if only_copies else bounds.values
        if (clocks.times[first] / exact[clocks.positions[first]] < level).any():
            break
        rates = rates if only_copies else bounds.values.clamp(min=0)  # 0 for rows that equal a center
        if not rates.any():
            level = torch.inf
            break
        level *= 2
    shrunk = float(bounds.values[positions].sum()) < STALE_SHARE * before
    if not only_copies and shrunk and bounds.centers_in_all < bounds.center_count:
        bounds.lower_all()
    return Draws(
        shard.candidates(positions, level), clocks.steps, shard.places[clocks.positions], clocks.times
    )


def pick_first_clocks(among: CandidateSet, found: list[Draws], steps: int, only_copies: bool) -> list[float]:
    """Pick the row of each step, while no other row can come first; return their squared distances."""
    level = min(draws.candidates.level for draws in found)
    when = torch.cat([draws.steps for draws in found]).cpu().numpy()
    times = torch.cat([draws.times for draws in found]).cpu().numpy()
    places, row_of = among.places.sort()
    who = row_of[torch.searchsorted(places, torch.cat([draws.places for draws in found]))].cpu().numpy()
    order = np.lexsort((who, when))
    who, times = who[order], times[order]
    ends = np.searchsorted(when[order], np.arange(steps + 1))
    scores = list[float]()
    for start, end in pairwise(ends.tolist()):
        first = first_clock(among, who[start:end], times[start:end], level, only_copies)
        if first is None:
            break
        scores.append(0.0 if only_copies else float(among.distances[first]))
        among.pick(first)
    return scores


def first_clock(
    among: CandidateSet, rows: NDArray[np.int64], times: NDArray[np.float64], level: float, only_copies: bool
) -> int | None:
    """Return the row whose clock over its distance is first, if below the level."""
    while True:
        distances = among.distances[rows]
        running = distances > (PICKED if only_copies else 0.0)
        rows, times, distances = rows[running], times[running], distances[running]
        ratios = times if only_copies else times / distances
        first = int(ratios.argmin()) if len(ratios) else -1
        if first < 0 or not ratios[first] < level:
            return None
        if only_copies or among.exact[rows[first]]:
            return int(rows[first])
        among.measure(int(rows[first]))


class Clocks(NamedTuple):
    """Early clocks of some rows at some steps, in any order."""

    steps: Tensor
    """(k,), counted from the first of the steps."""
    positions: Tensor
    """(k,)."""
    times: Tensor
    """(k,) float64."""


def exponential_clocks(keys: Tensor, places: Tensor, rates: Tensor, level: float) -> Clocks:
    """Return the clocks that divided by their rates are below a level; a rate of 0 has none.

    Args:
        keys: One for each step, (steps,).
        places: (n,), ascending.
        rates: (n,).
        level: Bound of time / rate.
    """
    device, places, rates = places.device, places.cpu(), rates.cpu()
    blocks, inside = torch.unique_consecutive(places // BLOCK, return_inverse=True)
    fastest = torch.zeros_like(blocks, dtype=rates.dtype).scatter_reduce_(0, inside, rates, "amax")
    latest = fastest * (level * ROUND_UP)
    step, block, stream = early_streams(keys, blocks, latest)
    since, made, more, found = torch.zeros(len(stream), 1, dtype=torch.float64), 0, 2, list[Clocks]()
    while made == 0 or len(stream):
        turns = torch.arange(made + 1, made + more + 1)
        bits = scrambled(stream[:, None] + turns * GOLDEN)  # (streams, more)
        waits = -torch.log1p(-as_uniform(bits)) / BLOCK
        times = torch.cat([since, waits], 1).cumsum(1)[:, 1:]  # the same sums in whatever portions
        which, turn = (times <= latest[block][:, None]).nonzero().T
        place = blocks[block[which]] * BLOCK + (bits[which, turn] & (BLOCK - 1))
        position = torch.searchsorted(places, place).clamp_(max=len(places) - 1)
        time = times[which, turn]
        early = (places[position] == place) & (time / rates[position] < level)
        found.append(Clocks(step[which][early], position[early], time[early]))
        going = times[:, -1] <= latest[block]
        step, block, stream, since = step[going], block[going], stream[going], times[going, -1:]
        made, more = made + more, min(MAX_ARRIVALS, 8 * more)
    return Clocks(*(torch.cat(column).to(device) for column in zip(*found, strict=True)))


def early_streams(keys: Tensor, blocks: Tensor, latest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return step, block and key of the few streams whose first arrival may come before the latest of its block."""
    streams = scrambled(keys[:, None] + (blocks + 1) * GOLDEN)  # (steps, blocks)
    chance = -torch.expm1(-BLOCK * latest) * ROUND_UP
    step, block = (as_uniform(scrambled(streams + GOLDEN)) <= chance).nonzero().T
    return step, block, streams[step, block]


k_means_pp = KMeansPP()
