"""Rows that lie in several shards, perhaps on several machines: what each is asked, and how answers become picks.

A selector that can pick over shards asks all of them the same questions and decides by the answers alone. Every
answer is exact, and a place says which example of the whole pool a row is of, so that picks are the same however many
shards there are and in whatever order they answer. One machine is the case of one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from jostle.rng import bits_at
from jostle.rows.geometry import (
    Rows,
    blocks,
    exact_lengths,
    joined,
    origin,
    rows_at,
    rows_at_once,
    unit_length,
    width,
)
from jostle.selectors.base import checked_rows, checked_scores
from jostle.selectors.draws import arrivals, lucks
from jostle.selectors.gaps import PICKED, Contest, Gaps

NOWHERE = 2**62  # a place after every other
LASTING = ("set_out", "run")  # news that change rows; all others are forgotten when a selector begins anew
FARTHEST = 64  # rows that are looked at for the largest gap
ENOUGH = 8.0  # early clocks for each draw, to be expected
STALE = 0.5  # gaps so much smaller than their bounds: then all are lowered
LITTLE = 1e-300  # keeps a level finite


class Largest(NamedTuple):
    """The largest scores of a shard, in order."""

    scores: Tensor
    """(k,), in the scores' own type."""
    ties: Tensor
    """What decides among equal scores, (k,) int64: the smaller comes first."""
    places: Tensor
    """(k,)."""


class Offer(NamedTuple):
    """Rows of a shard that may be picked next, by place."""

    places: Tensor
    """(k,), ascending."""
    rows: Rows
    """(k, d), as they are."""
    gaps: Tensor
    """(k,) float64, exact."""
    level: float
    """What a pick has to beat, since another row of the shard may have it."""
    rival: int
    """The first place of the shard that may have the level."""


class Draws(NamedTuple):
    """Rows of a shard that may be drawn next, with the clocks of some steps; all others are not below the level."""

    offer: Offer
    """The rows, and the level."""
    steps: Tensor
    """(k,), counted from the first that was asked for."""
    places: Tensor
    """(k,), of rows that are offered."""
    times: Tensor
    """(k,) float64."""


class Seen(NamedTuple):
    """What became of the rows that were offered."""

    places: Tensor
    """(k,), ascending."""
    gaps: Tensor
    """(k,) float64, never too small."""
    exact: Tensor
    """(k,) bool."""


class Shards(Protocol):
    """All shards of a pool: a question goes to each, and answers come in any order."""

    def ask(self, question: str, *about: Any) -> list[Any]:
        """What `Shard.question(*about)` gives, of all shards."""

    def tell(self, news: str, *about: Any) -> None:
        """Call `Shard.news(*about)` of all shards, which changes what they answer from now on."""

    def __len__(self) -> int:
        """How many rows there are in all."""

    @property
    def count(self) -> int:
        """How many shards there are."""


class Shard:
    """Rows of some places of the pool, and what is known of their gaps."""

    def __init__(self, rows: Rows, places: Tensor, checked: bool = False) -> None:
        self.rows, self.places = rows, places.to(rows.device)  # places ascend
        self.checked = checked  # rows are finite floating matrices
        self.gaps: Gaps | None = None

    def with_others(self, others: Sequence[Shard]) -> Shard:
        """One shard of several, whose places follow each other."""
        parts = [self, *others]
        rows = joined([part.rows for part in parts]) if others else self.rows
        return Shard(rows, torch.cat([part.places for part in parts]))

    def __len__(self) -> int:
        return len(self.places)

    def largest(self, n: int, key: int, lengths: bool) -> Largest:
        """The n largest scores, or the longest rows; a key decides among equals."""
        scores = self._lengths() if lengths else checked_scores(self.rows, self.places)
        ties = bits_at(key, self.places)
        order = ties.argsort()
        order = order[scores[order].sort(descending=True, stable=True).indices][:n]
        return Largest(scores[order], ties[order], self.places[order])

    def _lengths(self) -> Tensor:
        rows = self.matrix()
        found = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
        for part in blocks(len(rows), per_row=width(rows), of=rows):
            found[part] = exact_lengths(rows[part].to(torch.float64))
        return found.sqrt_()

    def matrix(self, centers: Rows | None = None) -> Rows:
        """Rows as distances want them, looked at once: finite, and as wide as centers are."""
        if not self.checked:
            self.rows, _ = checked_rows(self.rows, 1, centers)
            self.checked = True
        return self.rows

    def begin(self, centers: Rows | None, unit: bool, gone: Sequence[int]) -> None:
        """Measure gaps to these centers, or to the origin; what is gone cannot be picked."""
        rows = self.matrix(centers)
        centers = None if centers is None else centers.to(rows.device)
        self.gaps = Gaps(rows, origin(rows) if centers is None else centers, unit=unit)
        self.leave(torch.tensor(gone, dtype=torch.int64))

    def choose(self, rows: Rows, places: Tensor) -> None:
        """Make centers of some rows, of whatever shard; those of this one cannot be picked again."""
        assert self.gaps is not None
        self.gaps.add(rows.to(self.rows.device))
        self.leave(places)

    def leave(self, places: Tensor) -> None:
        """Never offer these places, as far as they are here."""
        assert self.gaps is not None
        here, _ = self._here(places)
        self.gaps.bounds[here] = PICKED

    def _here(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of those of some places that are here, and which of the places these are."""
        places = places.to(self.places.device)
        at = torch.searchsorted(self.places, places)
        mine = at < torch.searchsorted(self.places, places, right=True)
        return at[mine], mine

    def row(self, place: int) -> Rows | None:
        """The row of a place, (1, d), where it is here."""
        here, _ = self._here(torch.tensor([place]))
        return rows_at(self.rows, here) if len(here) else None

    def learn(self, seen: Seen | None) -> Gaps:
        """The gaps, with what a contest found out about the rows that were offered."""
        assert self.gaps is not None
        if seen is not None:
            here, mine = self._here(seen.places)
            self.gaps.know(here, seen.gaps.to(here.device)[mine], seen.exact.to(here.device)[mine])
            self.gaps.tidy()
        return self.gaps

    def farthest(self, size: int, most: int, seen: Seen | None) -> Offer:
        """About `size` of the farthest rows, among them one that no other row of the shard is ahead of."""
        gaps = self.learn(seen)
        size, most = rows_at_once(size, gaps.rows), rows_at_once(most, gaps.rows)
        while True:
            positions, level, rival = _foremost(gaps.bounds, size)
            positions = gaps.contenders(positions, torch.full_like(gaps.bounds[positions], level))
            exact = gaps.bounds[positions]
            if level == PICKED or (len(positions) and _ahead(exact, positions, level, rival)):
                rival = NOWHERE if rival == len(gaps.bounds) else int(self.places[rival])
                return self._offer(positions, level, rival)
            size = min(most, 2 * size)
            gaps.tidy()

    def summary(self, n: int, centers: Rows | None, unit: bool) -> Offer:
        """n rows that cover the shard, greedily picked, or all of it."""
        from jostle.selectors.k_center import KCenter  # which picks over shards itself

        rows = self.matrix(centers)
        positions = KCenter(unit=unit).pick(rows, min(n, len(rows)), centers=centers).positions.sort().values
        gaps = torch.zeros(len(positions), dtype=torch.float64, device=rows.device)
        return Offer(self.places[positions], rows_at(rows, positions), gaps, PICKED, NOWHERE)

    def radius(self) -> float:
        """The largest distance of a row to its nearest center."""
        assert self.gaps is not None
        offer = self.farthest(FARTHEST, FARTHEST, None)
        return float(offer.gaps.max().clamp(min=0).sqrt()) if len(offer.gaps) else 0.0

    def drawn(self, key: int, step: int, steps: int, rest: bool, seen: Seen | None) -> Draws:
        """Rows that may be drawn at some steps to come; at the first of them, one at least if there is any.

        With `rest`, among rows that equal a center: none of the others is left then.
        """
        gaps = self.learn(seen)
        rates = (gaps.bounds > PICKED).double() if rest else gaps.bounds.clamp(min=0)
        luck, level = lucks(key, step, steps), ENOUGH / float(rates.sum().clamp(min=LITTLE))
        while True:
            found = arrivals(luck, self.places, rates, level)
            offered = found.positions.unique()
            before = float(gaps.bounds[offered].sum())
            gaps.measure(offered)
            first = found.steps == 0
            exact = rates if rest else gaps.bounds
            if (found.times[first] / exact[found.positions[first]] < level).any():
                break
            rates = rates if rest else gaps.bounds.clamp(min=0)  # rows that equal a center have shown it
            if not rates.any():
                level = torch.inf
                break
            level *= 2
        if not rest and float(gaps.bounds[offered].sum()) < STALE * before and gaps.lowered < gaps.centers:
            gaps.lower_all()
        offer = self._offer(offered, level, NOWHERE)
        return Draws(offer, found.steps, self.places[found.positions], found.times)

    def _offer(self, positions: Tensor, level: float, rival: int) -> Offer:
        assert self.gaps is not None
        rows, gaps = rows_at(self.gaps.rows, positions), self.gaps.bounds[positions]
        return Offer(self.places[positions], rows, gaps, level, rival)


def _foremost(bounds: Tensor, size: int) -> tuple[Tensor, float, int]:
    """Rows with the largest bounds, by position; the largest bound of all others, and the first to have it."""
    if size >= len(bounds):
        return (bounds > PICKED).nonzero()[:, 0], PICKED, len(bounds)
    level = float(bounds.topk(size + 1).values[-1])
    above = (bounds > level).nonzero()[:, 0]
    if level == PICKED:
        return above, level, len(bounds)
    tied = (bounds == level).nonzero()[:, 0]
    room = size - len(above)
    return torch.cat([above, tied[:room]]).sort().values, level, int(tied[room])


def _ahead(gaps: Tensor, positions: Tensor, level: float, rival: int) -> bool:
    """Whether the farthest of some rows is ahead of all others; of equals, the first."""
    best = int(gaps.argmax())
    return float(gaps[best]) > level or (float(gaps[best]) == level and int(positions[best]) < rival)


class Here:
    """Shards in this process; one is what selectors make of plain rows."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards

    @classmethod
    def of(cls, rows: Rows, checked: bool = True) -> Here:
        """All rows as one shard, their positions for places."""
        return cls([Shard(rows, torch.arange(len(rows), device=rows.device), checked)])

    def ask(self, question: str, *about: Any) -> list[Any]:
        """What all shards answer, in their order."""
        return [getattr(shard, question)(*about) for shard in self.shards]

    def tell(self, news: str, *about: Any) -> None:
        """Tell all shards."""
        self.ask(news, *about)

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    @property
    def count(self) -> int:
        """How many shards there are."""
        return len(self.shards)


class Round:
    """The rows that all shards offered, in the order of their places, in one contest."""

    def __init__(self, offers: Sequence[Offer], unit: bool = False) -> None:
        offers = [offer for offer in offers if len(offer.places)] or offers[:1]
        places = torch.cat([offer.places for offer in offers])
        self.order = places.argsort()
        self.places = places[self.order]
        self.rows = rows_at(joined([offer.rows for offer in offers]), self.order)
        exact = self.rows.to(torch.float64)
        gaps = torch.cat([offer.gaps for offer in offers])[self.order]
        self.contest = Contest(unit_length(exact) if unit else exact, gaps)
        self.winners: list[int] = []

    def take(self, winner: int) -> None:
        """Pick a row."""
        self.winners.append(winner)
        self.contest.take(winner)

    @property
    def chosen(self) -> tuple[Rows, Tensor]:
        """Rows and places of the winners, in the order they were picked."""
        winners = torch.tensor(self.winners, dtype=torch.int64, device=self.places.device)
        return rows_at(self.rows, winners), self.places[winners]

    @property
    def seen(self) -> Seen:
        """What the contest found out about the rows that were offered."""
        return Seen(self.places, torch.from_numpy(self.contest.gaps), torch.from_numpy(self.contest.exact))
