"""Greedy k-center: always the row farthest from everything chosen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jostle.rng import generator
from jostle.rows.geometry import (
    CROWD_NUMBERS,
    Rows,
    joined,
    rows_at,
    rows_at_once,
    squared_differences,
    squared_distances,
    unit_length,
)
from jostle.selectors.base import (
    WORD,
    Picks,
    block_room,
    check_pickable,
    seed_or_fresh,
    tie_keys,
)
from jostle.selectors.shards import (
    NO_RIVAL,
    PICKED,
    Candidates,
    DistanceBounds,
    KnownDistances,
    Shard,
    ShardedSelector,
    Shards,
)
from jostle.utils.progress import note

MIN_CANDIDATES, MAX_CANDIDATES = 64, 1024  # of all shards; their mutual distances are one matrix
MIN_SHARD_CANDIDATES = 8
MAX_GROWTH = 4  # times as many candidates where these do not decide


@dataclass(frozen=True)
class KCenter(ShardedSelector):
    """Farthest first, from the origin or from `centers`; a pick's score is its distance when it was picked.

    Without origin and centers the first pick is drawn, its score NaN.

    Example:
        >>> import jostle, torch
        >>> rows = torch.tensor([[0.0, 1.0], [3.0, 0.0], [3.0, 0.1]])
        >>> jostle.k_center(rows, 2).tolist()
        [2, 0]
    """

    unit: bool = False
    """Scale rows to unit length first."""
    origin: bool = True
    """Without centers, start from the zero row: the first pick is the longest row."""

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows from shards."""
        check_pickable(n, len(shards))
        seed = seed_or_fresh(seed)
        if centers is not None or self.origin:
            shards.start(centers, self.unit, seed)
            return pick_farthest(shards, n, self.unit, seed)
        draws = generator(seed, "k-center")
        first = int(torch.randint(len(shards), (1,), generator=draws, device="cpu"))
        shards.start(shards.collect(torch.tensor([first])), self.unit, seed, [first])
        rest = pick_farthest(shards, n - 1, self.unit, seed)
        draw = torch.tensor([first], device=rest.positions.device)
        return Picks(
            torch.cat([draw, rest.positions]), torch.cat([rest.scores.new_tensor([torch.nan]), rest.scores])
        )

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of all bounds, and of candidates with their mutual distances."""
        crowd = min(size, MAX_CANDIDATES, MAX_GROWTH * max(MIN_CANDIDATES, n // 2))
        crowd = min(crowd, max(16, CROWD_NUMBERS // width))
        return 5 * WORD * size + 2 * WORD * crowd * (width + crowd) + block_room(size, width)


def pick_farthest(shards: Shards, n: int, unit: bool, seed: int) -> Picks:
    """Pick n rows from shards that have started, several in a round as long as no other row can be farther."""
    places, scores = list[Tensor](), list[float]()
    known: KnownDistances | None = None
    size = max(MIN_SHARD_CANDIDATES, min(MAX_CANDIDATES, max(MIN_CANDIDATES, n // 2)) // shards.count)
    while len(scores) < n:
        found = shards.gather(partial(farthest_rows, size=size, limit=MAX_CANDIDATES, known=known))
        among = CandidateSet(found, seed, unit)
        scores += pick_among(among, found, n - len(scores))
        note(len(among.winners))
        rows, picked = among.picked()
        shards.add_centers(rows, picked)
        places.append(picked)
        known = among.known()
    picks = join_rounds(places, scores)
    return Picks(picks.positions, picks.scores.sqrt())


def farthest_rows(shard: Shard, size: int, limit: int, known: KnownDistances | None) -> Candidates:
    """Return about `size` of the farthest rows of a shard, one of which is ahead of all others of the shard."""
    bounds, keys = shard.update(known), tie_keys(shard.seed, shard.places)
    size, limit = rows_at_once(size, bounds.rows), rows_at_once(limit, bounds.rows)
    while True:
        positions, level, rival = largest_bounds(bounds, keys, size)
        positions = bounds.keep_far(positions, torch.full_like(bounds.values[positions], level))
        if level == PICKED or is_ahead(bounds.values[positions], keys[positions], level, rival):
            return shard.candidates(positions, level, rival)
        size = min(limit, 2 * size)
        bounds.lower_all_if_wasteful()


def largest_bounds(bounds: DistanceBounds, keys: Tensor, size: int) -> tuple[Tensor, float, int]:
    """Return the rows with the largest bounds, the largest bound of all others, and their smallest tie key there."""
    values = bounds.values
    if size >= len(values):
        return (values > PICKED).nonzero()[:, 0], PICKED, NO_RIVAL
    level = float(values.topk(size + 1).values[-1])
    above = (values > level).nonzero()[:, 0]
    if level == PICKED:
        return above, level, NO_RIVAL
    tied = (values == level).nonzero()[:, 0]
    tied = tied[keys[tied].argsort()]
    room = size - len(above)
    return torch.cat([above, tied[:room]]).sort().values, level, int(keys[tied[room]])


def is_ahead(distances: Tensor, keys: Tensor, level: float, rival: int) -> bool:
    """Return whether one of the rows is ahead of all others of its shard, by distance and then by tie key."""
    if not len(distances):
        return False
    largest = distances.max()
    return float(largest) > level or (
        float(largest) == level and int(keys[distances == largest].min()) < rival
    )


def pick_among(among: CandidateSet, found: list[Candidates], n: int) -> list[float]:
    """Pick up to n candidates while no other row can be farther; return their squared distances."""
    level = max(each.level for each in found)
    rival = min(each.rival for each in found if each.level == level)
    scores = list[float]()
    while len(scores) < min(n, len(among)):
        winner = among.farthest()
        distance = float(among.distances[winner])
        if distance < level or (distance == level and among.keys[winner] > rival):
            break
        scores.append(distance)
        among.pick(winner)
    return scores


class CandidateSet:
    """Candidates of all shards, among which picks follow each other without a look at other rows.

    Rows are in the order of their tie keys. Distances become upper bounds once a pick may have lowered them; a row
    that comes out on top is measured again.
    """

    def __init__(self, found: Sequence[Candidates], seed: int, unit: bool = False) -> None:
        found = [each for each in found if len(each.places)] or found[:1]
        places = torch.cat([each.places for each in found])
        keys = tie_keys(seed, places)
        order = keys.argsort()
        self.places = places[order]
        self.keys: list[int] = keys[order].tolist()
        self.rows = rows_at(joined([each.rows for each in found]), order)
        self.winners: list[int] = []
        self._measured = self.rows.to(torch.float64)
        if unit:
            self._measured = unit_length(self._measured)
        distances = torch.cat([each.distances for each in found])[order]
        self.distances: NDArray[np.float64] = distances.cpu().numpy().copy()  # never too small
        self.exact = np.ones(len(order), dtype=bool)
        self._before = self.distances.copy()  # exact, without the winners
        pairs, slack = distances[:, None], distances
        if len(order):
            pairs, slack = squared_distances(self._measured, self._measured)
        self._pairs, self._slack = pairs.cpu().numpy(), slack.cpu().numpy()

    def __len__(self) -> int:
        return len(self.keys)

    def farthest(self) -> int:
        """Return the row with the largest distance; of exact ties, the first in the order of keys."""
        while not self.exact[first := int(self.distances.argmax())]:
            self.measure(first)
        return first

    def measure(self, row: int) -> float:
        """Return the exact distance of a row."""
        if not self.exact[row]:
            pairs = self._pairs[self.winners, row]
            close = (pairs <= pairs.min() + 2 * self._slack[row]).nonzero()[0]
            partners = torch.tensor([self.winners[place] for place in close], device=self.places.device)
            itself = torch.full_like(partners, row)
            apart = squared_differences(rows_at(self._measured, itself), rows_at(self._measured, partners))
            self.distances[row] = min(self._before[row], float(apart.min()))
            self.exact[row] = True
        return float(self.distances[row])

    def pick(self, winner: int) -> None:
        """Make a center of a row: lower the distances of the others, and exclude it from now on."""
        self.winners.append(winner)
        pairs = self._pairs[winner]
        self.exact &= pairs - self._slack >= self.distances
        np.minimum(self.distances, pairs + self._slack, out=self.distances)
        self.distances[winner] = PICKED
        self.exact[self.winners] = True

    def picked(self) -> tuple[Rows, Tensor]:
        """Return rows and places of the winners, in pick order."""
        winners = torch.tensor(self.winners, dtype=torch.int64, device=self.places.device)
        return rows_at(self.rows, winners), self.places[winners]

    def known(self) -> KnownDistances:
        """Return what is known of the distances now."""
        return KnownDistances(self.places, torch.from_numpy(self.distances), torch.from_numpy(self.exact))


def join_rounds(places: list[Tensor], scores: list[float]) -> Picks:
    """Return the picks of several rounds as one."""
    if not places:
        return Picks(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64))
    positions = torch.cat(places)
    return Picks(positions, torch.tensor(scores, dtype=torch.float64, device=positions.device))


k_center = KCenter()
