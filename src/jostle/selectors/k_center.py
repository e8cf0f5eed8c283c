"""Greedy k-center: always the row farthest from everything chosen so far."""

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.plumbing.progress import note
from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import CROWD_NUMBERS, Rows
from jostle.selectors.base import WORD, Picks, Selector, block_room, check_pickable, checked_rows
from jostle.selectors.shards import Here, Offer, Round, Seen, Shards

LEAST, MOST = 64, 1024  # rows that compete at once; their mutual distances are one matrix
FEWEST = 8  # of them, from each shard
WIDER = 4  # times as many, where those do not decide


@dataclass(frozen=True)
class KCenter(Selector):
    """Farthest first, from the origin or from `centers`; a pick's score is its distance when it was picked.

    Ties go to the earlier row. Without origin and centers the first pick is drawn, its score NaN.
    """

    unit: bool = False
    """Scale rows to unit length first."""
    origin: bool = True
    """Without centers, start from the zero row: the first pick is the longest row."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; the seed matters only without origin and centers."""
        rows, centers = checked_rows(rows, n, centers)
        return self.pick_over(Here.of(rows), n, centers=centers, seed=seed)

    def pick_over(
        self, shards: Shards, n: int, *, centers: Rows | None = None, seed: int | None = None
    ) -> Picks:
        """Pick n rows of all shards."""
        check_pickable(n, len(shards))
        if centers is not None or self.origin:
            shards.tell("begin", centers, self.unit, [])
            return farthest_first(shards, n, self.unit)
        draws = generator(fresh_seed() if seed is None else seed, "k-center")
        first = int(torch.randint(len(shards), (1,), generator=draws, device="cpu"))
        shards.tell("begin", the_row(shards, first), self.unit, [first])
        rest = farthest_first(shards, n - 1, self.unit)
        draw = torch.tensor([first], device=rest.positions.device)
        return Picks(
            torch.cat([draw, rest.positions]), torch.cat([rest.scores.new_tensor([torch.nan]), rest.scores])
        )

    def reach(self, rows: Rows, n: int) -> float | None:
        """From the origin, the last pick's gap: a row's gap is at most its length."""
        return None if self.unit or not self.origin else float(self.pick(rows, n).scores[-1])

    def room(self, size: int, width: int, n: int) -> int:
        """Bounds of all gaps, and the rows that compete with their mutual distances."""
        crowd = min(size, MOST, WIDER * max(LEAST, n // 2), max(16, CROWD_NUMBERS // width))
        return 5 * WORD * size + 2 * WORD * crowd * (width + crowd) + block_room(size, width)


def the_row(shards: Shards, place: int) -> Rows:
    """The row of a place, (1, d), of whichever shard has it."""
    found: Rows = next(row for row in shards.ask("row", place) if row is not None)
    return found


def farthest_first(shards: Shards, n: int, unit: bool) -> Picks:
    """n picks from where the shards have begun, as many at a time as no other row can come between."""
    places, scores = list[Tensor](), list[float]()
    seen: Seen | None = None
    total = min(MOST, max(LEAST, n // 2))
    size = max(FEWEST, total // shards.count)
    while len(scores) < n:
        offers: list[Offer] = shards.ask("farthest", size, MOST, seen)
        round_ = Round(offers, unit)
        scores += farthest_of(round_, offers, n - len(scores))
        note(len(round_.winners))
        rows, chosen = round_.chosen
        shards.tell("choose", rows, chosen)
        places.append(chosen)
        seen = round_.seen
    picks = picks_of(places, scores)
    return Picks(picks.positions, picks.scores.sqrt())


def picks_of(places: list[Tensor], scores: list[float]) -> Picks:
    """Picks from the places of several rounds."""
    if not places:
        return Picks(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64))
    positions = torch.cat(places)
    return Picks(positions, torch.tensor(scores, dtype=torch.float64, device=positions.device))


def farthest_of(round_: Round, offers: list[Offer], n: int) -> list[float]:
    """Up to n squared gaps of picks among the rows offered, while no row that was not offered can be farther."""
    level = max(offer.level for offer in offers)
    rival = min(offer.rival for offer in offers if offer.level == level)
    order, scores = round_.places.tolist(), list[float]()
    while len(scores) < min(n, len(order)):
        winner = round_.contest.farthest()
        gap = float(round_.contest.gaps[winner])
        if gap < level or (gap == level and order[winner] > rival):
            break
        scores.append(gap)
        round_.take(winner)
    return scores


k_center = KCenter()
