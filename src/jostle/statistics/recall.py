"""Lower bounds on recall: the share of a class that was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jostle.statistics.confidence import (
    ALPHA,
    LEVELS,
    Array,
    UpperBettor,
    bets,
    check_sample,
    invert,
    log_capital,
)

MIN_BOLDNESS = 0.05  # share of a stake that is bet in any case
STAKE_WEIGHTS = (0.1, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 8, 0.5, *[0.05] * 6)  # most on "nothing is left"


@dataclass(frozen=True)
class RecallBound:
    """A lower bound on the share of a class that was found.

    Attributes:
        recall: The bound: found / (found + missed).
        found: Members of the class among all answered examples.
        missed: Upper bound on the members among the unanswered examples.
    """

    recall: float
    found: int
    missed: int


def recall_lower_bound(
    found: int, is_member: ArrayLike, chances: ArrayLike, *, alpha: float = ALPHA
) -> RecallBound:
    """Bound the recall of a search from random draws among the examples that were not picked; valid after every
    answer.

    Args:
        found: Members among the examples that were answered outside the audit.
        is_member: (t,) 1 where an audited example belongs to the class, in draw order.
        chances: (N,) chances of belonging to the class of all examples that were not picked: the draws in draw order,
            then the rest.
        alpha: Probability that the bound ever exceeds the true recall. All of it is spent on this one bound.
    """
    members, expected = check_sample(is_member, chances)
    if found < 0:
        raise ValueError(f"found must be 0 or more, got {found}")
    audited = int(members.sum())
    bound = UpperBettor(members, expected, bet_weights=STAKE_WEIGHTS).bound(alpha) if len(expected) else 0.0
    most = math.floor(bound * len(expected) + 1e-6)  # members are whole
    missed = max(most - audited, 0)
    total = found + audited + missed
    return RecallBound((found + audited) / total if total else 0.0, found + audited, missed)


class RecallSequence:
    """A lower bound on recall during a search: valid after every answer, whatever steers the search.

    All members of the class among all examples are one fixed number, so one confidence sequence serves the whole
    search. Answers of any kind may train the model and decide what is asked next: only the random draws must be
    uniform among the examples that are unanswered at that moment.

    Bets are small while the model expects more members than the goal allows to miss, and large afterwards.

    Args:
        examples: Number of examples to search.
        goal: Recall that is to be proven; the bound is valid for any.
    """

    def __init__(self, examples: int, goal: float = 0.95) -> None:
        self.examples, self.goal, self.answered, self.found = examples, goal, 0, 0
        self._rows: list[tuple[float, float, float, Array, Array, Array]] = []

    def add_answers(self, count: int, members: int) -> None:
        """Count answers that were not drawn at random, and the members among them."""
        if not 0 <= members <= count <= self.examples - self.answered:
            raise ValueError(
                f"{members} members in {count} answers are impossible with {self.examples - self.answered} left"
            )
        self.answered += count
        self.found += members

    def add_draw(self, chances: ArrayLike, drawn: int, is_member: bool) -> None:
        """Count the answer to a random draw.

        Args:
            chances: (n,) chances of belonging to the class of all examples that were unanswered before the draw.
            drawn: Place of the draw among them.
            is_member: The answer.
        """
        _, rest = check_sample([], chances)
        if len(rest) != self.examples - self.answered:
            raise ValueError(f"pass chances of {self.examples - self.answered} examples, got {len(rest)}")
        _, _, table = bets(STAKE_WEIGHTS)
        levels = np.rint(rest * LEVELS).astype(np.int64)
        mean = np.bincount(levels, minlength=LEVELS + 1) @ table / len(rest)  # (K,)
        surprise = float(is_member) - table[levels[drawn]]
        allowed = self.found / self.goal - self.found + 1  # one more than may be missed
        boldness = float(np.clip(1 - rest.sum() / allowed, MIN_BOLDNESS, 1))
        self._rows.append((self.found, len(rest), boldness, surprise, mean, 1 - table[levels.min()]))
        self.add_answers(1, int(is_member))

    def bound(self, alpha: float = ALPHA) -> RecallBound:
        """Return the lower bound on the share of all members that was found."""
        left = self.examples - self.answered
        most = float(self.found + left)
        if self._rows and left:
            before, sizes, boldness, surprise, mean, worst = map(np.array, zip(*self._rows, strict=True))
            whole, log_weights, _ = bets(STAKE_WEIGHTS)
            stakes = whole * boldness[:, None]  # (t, K)

            def capital(total: float) -> float:
                gap = ((total - before) / sizes)[:, None] - mean
                return float(log_capital(surprise - gap, worst - gap, stakes, log_weights).max())

            most = invert(capital, float(self.found), most, alpha)
        missed = max(math.floor(most + 1e-6) - self.found, 0)
        total = self.found + missed
        return RecallBound(self.found / total if total else 0.0, self.found, missed)
