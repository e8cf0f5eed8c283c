"""k-means++ seeding as BADGE uses it: the longest row, then rows in proportion to their squared gaps."""

from dataclasses import dataclass

import torch

from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows, rows_at_once
from jostle.selectors.base import Picks, Selector, checked_rows
from jostle.selectors.gaps import PICKED, Contest, Gaps
from jostle.selectors.k_center import KCenter

PROPOSALS = 256  # drawn at once; those accepted in a row need each other's distances only


@dataclass(frozen=True)
class KMeansPP(Selector):
    """Draws rows in proportion to the squared distance to the nearest center, which is a pick's score.

    Without centers the first pick is the longest row, its score the squared length. Rows that equal a center
    come only when nothing else is left.
    """

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows; equal seeds give equal picks."""
        rows, centers = checked_rows(rows, n, centers)
        draws = generator(fresh_seed() if seed is None else seed, "k-means++")
        if centers is not None:
            return _drawn(Gaps(rows, centers), n, draws)
        longest, length = KCenter().pick(rows, 1)
        gaps = Gaps(rows, rows[longest])
        gaps.bounds[longest] = PICKED
        rest = _drawn(gaps, n - 1, draws)
        return Picks(torch.cat([longest, rest.positions]), torch.cat([length.square(), rest.scores]))


def _drawn(gaps: Gaps, n: int, draws: torch.Generator) -> Picks:
    """Exact draws by rejection: rows are proposed by the bounds of their gaps, and accepted by gap / bound.

    Stale bounds cost proposals, never exactness.
    """
    scores: list[float] = []
    while len(scores) < n:
        draw = _round if (gaps.bounds > 0).any() else _rest
        scores += draw(gaps, n - len(scores), draws)
        gaps.tidy()
    return Picks(gaps.chosen, torch.tensor(scores, dtype=torch.float64, device=gaps.rows.device))


def _round(gaps: Gaps, n: int, draws: torch.Generator) -> list[float]:
    """Up to n picks from one batch of proposals."""
    masses = gaps.bounds.clamp(min=0)
    ladder = masses.cumsum(0)
    luck = torch.rand(
        2, rows_at_once(PROPOSALS, gaps.rows), generator=draws, device=draws.device, dtype=torch.float64
    )
    where, accept = luck.to(masses.device)
    proposed = torch.searchsorted(ladder, where * ladder[-1], right=True).clamp_(max=len(masses) - 1)
    needed = accept * masses[proposed]
    least = torch.full_like(masses, torch.inf).scatter_reduce_(0, proposed, needed, "amin")
    positions = least.isfinite().nonzero()[:, 0]
    positions, rows, exact = gaps.contenders(positions, least[positions])
    if not len(positions):
        return []
    contest = Contest(rows, exact)
    place = {position: turn for turn, position in enumerate(positions.tolist())}
    winners, scores = list[int](), list[float]()
    for position, threshold in zip(proposed.tolist(), needed.tolist(), strict=True):
        turn = place.get(position)  # None: the gap is too small for every proposal of this row
        if turn is not None and threshold < contest.gaps[turn] and len(winners) < n:
            winners.append(turn)
            scores.append(float(contest.gaps[turn]))
            contest.take(turn)
    gaps.choose(positions[winners], positions, torch.from_numpy(contest.gaps).to(positions.device))
    return scores


def _rest(gaps: Gaps, n: int, draws: torch.Generator) -> list[float]:
    """n picks where every row left equals a center."""
    left = (gaps.bounds > PICKED).nonzero()[:, 0]
    chosen = left[torch.randperm(len(left), generator=draws, device=draws.device)[:n].to(left.device)]
    gaps.choose(chosen, chosen, torch.full_like(gaps.bounds[chosen], PICKED))
    return [0.0] * n


k_means_pp = KMeansPP()
