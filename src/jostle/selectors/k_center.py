"""Greedy k-center: always the row farthest from everything chosen so far."""

from dataclasses import dataclass

import torch
from torch import Tensor

from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows, origin, rows_at_once
from jostle.selectors.base import Picks, Selector, checked_rows
from jostle.selectors.gaps import PICKED, Contest, Gaps

LEAST, MOST = 64, 1024  # rows that compete at once; their mutual distances are one matrix


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
        if centers is not None:
            return self._farthest(Gaps(rows, centers, unit=self.unit), n)
        if self.origin:
            return self._farthest(Gaps(rows, origin(rows), unit=self.unit), n)
        return self._from_a_draw(rows, n, fresh_seed() if seed is None else seed)

    def reach(self, rows: Rows, n: int) -> float | None:
        """From the origin, the last pick's gap: a row's gap is at most its length."""
        return None if self.unit or not self.origin else float(self.pick(rows, n).scores[-1])

    def _from_a_draw(self, rows: Rows, n: int, seed: int) -> Picks:
        first = torch.randint(len(rows), (1,), generator=generator(seed, "k-center"), device="cpu")
        draw = first.to(rows.device)
        gaps = Gaps(rows, rows[draw], unit=self.unit)
        gaps.bounds[draw] = PICKED
        rest = self._farthest(gaps, n - 1)
        unknown = torch.full_like(draw, torch.nan, dtype=torch.float64)
        return Picks(torch.cat([draw, rest.positions]), torch.cat([unknown, rest.scores]))

    def _farthest(self, gaps: Gaps, n: int) -> Picks:
        most = rows_at_once(MOST, gaps.rows)
        size = least = min(most, max(LEAST, n // 2))
        scores: list[float] = []
        while len(scores) < n:
            picks = _round(gaps, size, n - len(scores))
            scores += picks
            size = least if picks else min(most, 2 * size)
            gaps.tidy()
        squared = torch.tensor(scores, dtype=torch.float64, device=gaps.rows.device)
        return Picks(gaps.chosen, squared.sqrt())


def _round(gaps: Gaps, size: int, n: int) -> list[float]:
    """Up to n picks among the rows with the largest bounds, as long as no other row can be farther."""
    positions, level, rival = _contenders(gaps.bounds, size)
    positions, rows, exact = gaps.contenders(positions, torch.full_like(gaps.bounds[positions], level))
    if not len(positions):
        return []
    contest = Contest(rows, exact)
    order, winners, scores = positions.tolist(), list[int](), list[float]()
    while len(winners) < min(n, len(order)):
        winner = int(contest.gaps.argmax())
        gap = float(contest.gaps[winner])
        if gap < level or (gap == level and order[winner] > rival):
            break
        winners.append(winner)
        scores.append(gap)
        contest.take(winner)
    gaps.choose(positions[winners], positions, torch.from_numpy(contest.gaps).to(positions.device))
    return scores


def _contenders(bounds: Tensor, size: int) -> tuple[Tensor, float, int]:
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


k_center = KCenter()
