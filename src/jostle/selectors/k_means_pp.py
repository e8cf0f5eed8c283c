"""k-means++ seeding as BADGE uses it: the longest row, then rows in proportion to their squared gaps."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rng import derive, fresh_seed
from jostle.rows.geometry import Rows
from jostle.selectors.base import WORD, Picks, Selector, check_pickable, checked_rows
from jostle.selectors.gaps import PICKED, Contest
from jostle.selectors.k_center import KCenter, farthest_first, picks_of, the_row
from jostle.selectors.shards import Draws, Here, Round, Seen, Shards

FEW, MANY = 4, 64  # draws that are looked ahead at once


@dataclass(frozen=True)
class KMeansPP(Selector):
    """Draws rows in proportion to the squared distance to the nearest center, which is a pick's score.

    Without centers the first pick is the longest row, its score the squared length. Rows that equal a center
    come only when nothing else is left.
    """

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; equal seeds give equal picks."""
        rows, centers = checked_rows(rows, n, centers)
        return self.pick_over(Here.of(rows), n, centers=centers, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows of all shards."""
        check_pickable(n, len(shards))
        key = derive(fresh_seed() if seed is None else seed, "k-means++")
        shards.tell("begin", centers, False, [])
        if centers is not None:
            return drawn(shards, n, key)
        longest, length = farthest_first(shards, 1, unit=False)
        shards.tell("begin", the_row(shards, int(longest)), False, longest.tolist())
        rest = drawn(shards, n - 1, key)
        return Picks(torch.cat([longest, rest.positions]), torch.cat([length.square(), rest.scores]))

    def room(self, size: int, width: int, n: int) -> int:
        """As k-center, and clocks of all rows."""
        return KCenter().room(size, width, n) + 4 * WORD * size


def drawn(shards: Shards, n: int, key: int) -> Picks:
    """n draws from where the shards have begun."""
    places, scores = list[Tensor](), list[float]()
    seen: Seen | None = None
    ahead, rest = FEW, False
    while len(scores) < n:
        steps = min(ahead, n - len(scores))
        found: list[Draws] = shards.ask("drawn", key, len(scores), steps, rest, seen)
        round_ = Round([draws.offer for draws in found])
        scores += first_clocks(round_, found, steps, rest)
        note(len(round_.winners))
        rest = rest or not round_.winners  # nothing is left that no center equals
        rows, chosen = round_.chosen
        shards.tell("choose", rows, chosen)
        places.append(chosen)
        seen = round_.seen
        ahead = min(MANY, max(FEW, 2 * len(round_.winners)))
    return picks_of(places, scores)


def first_clocks(round_: Round, found: list[Draws], steps: int, rest: bool) -> list[float]:
    """Squared gaps of the draws of some steps, while no row that was not offered can come first."""
    level = min(draws.offer.level for draws in found)
    when = torch.cat([draws.steps for draws in found]).cpu().numpy()
    times = torch.cat([draws.times for draws in found]).cpu().numpy()
    who = torch.searchsorted(round_.places, torch.cat([draws.places for draws in found])).cpu().numpy()
    order = np.lexsort((who, when))
    who, times = who[order], times[order]
    ends = np.searchsorted(when[order], np.arange(steps + 1))
    scores = list[float]()
    for start, end in pairwise(ends.tolist()):
        first = first_clock(round_.contest, who[start:end], times[start:end], level, rest)
        if first is None:
            break
        scores.append(0.0 if rest else float(round_.contest.gaps[first]))
        round_.take(first)
    return scores


def first_clock(
    contest: Contest, rows: NDArray[np.int64], times: NDArray[np.float64], level: float, rest: bool
) -> int | None:
    """The row, of some that ascend, whose clock over its gap is first, if below the level; of equals, the first row."""
    while True:
        gaps = contest.gaps[rows]
        running = gaps > (PICKED if rest else 0.0)
        rows, times, gaps = rows[running], times[running], gaps[running]
        keys = times if rest else times / gaps
        first = int(keys.argmin()) if len(keys) else -1
        if first < 0 or not keys[first] < level:
            return None
        if rest or contest.exact[rows[first]]:
            return int(rows[first])
        contest.measure(int(rows[first]))


k_means_pp = KMeansPP()
