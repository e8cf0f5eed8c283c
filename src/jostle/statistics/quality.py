"""Bounds of one audit: quality of each class, the difference of two models, the recall of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jostle.statistics.confidence import (
    ALPHA,
    LEVELS,
    Array,
    AuditSample,
    Interval,
    bets,
    check_sample,
    invert,
    log_capital,
)

MIN_ANSWERS = 20  # audited answers before an interval is worth showing
MIN_BOLDNESS = 0.05  # share of a stake that is bet in any case
STAKE_WEIGHTS = (0.1, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 8, 0.5, *[0.05] * 6)  # most on "nothing is left"


@dataclass(frozen=True)
class ClassQuality:
    """Quality of a model on one class; intervals are None where there are too few audited answers.

    Attributes:
        column: The class.
        predicted: Examples of the population that the model takes for this class.
        answered: Audited examples whose answer is this class.
        accuracy: Share of all examples whose membership the model tells.
        precision: Share of the predicted examples that belong to the class.
        recall: Share of the members of the class that the model finds.
    """

    column: int
    predicted: int
    answered: int
    accuracy: Interval
    precision: Interval | None
    recall: Interval | None


def class_qualities(
    sample: AuditSample,
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    alpha: float = ALPHA,
    min_answers: int = MIN_ANSWERS,
) -> list[ClassQuality]:
    """Bound accuracy, precision and recall of each class over the population of an audit.

    Each interval is a confidence sequence of its own with level alpha: not all of them hold together. Pass alpha over
    the number of intervals for that.

    Args:
        sample: The draws of the audit.
        labels: (t,) columns of the classes that were answered, in draw order.
        probabilities: (N, c) calibrated probabilities by position; the largest is the prediction.
        alpha: Probability of a miss of each interval.
        min_answers: Audited answers among the predicted examples (precision), or of the class (recall).
    """
    chances, answers = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if answers.shape != sample.draws.shape or chances.shape[:1] != (sample.population,):
        raise ValueError(
            f"pass labels for {len(sample.draws)} draws and probabilities for {sample.population} examples, "
            f"got shapes {answers.shape} and {chances.shape}"
        )
    return [
        _class_quality(sample, answers == c, chances, c, alpha, min_answers) for c in range(chances.shape[1])
    ]


def _class_quality(
    sample: AuditSample,
    member: NDArray[np.bool_],
    probabilities: NDArray[np.float64],
    column: int,
    alpha: float,
    min_answers: int,
) -> ClassQuality:
    chance = probabilities[:, column].clip(0, 1)  # (N,)
    predicted = probabilities.argmax(axis=1) == column  # (N,)
    taken, inside = predicted[sample.draws], int(predicted.sum())
    wrong = sample.interval(member != taken, np.where(predicted, 1 - chance, chance), alpha=alpha)
    precision = recall = None
    if int(taken.sum()) >= min_answers:
        precision = _part_interval(sample, predicted, member, chance, alpha)
    if int(member.sum()) >= min_answers:
        found = _part_interval(sample, predicted, member, chance, alpha / 2)
        missed = _part_interval(sample, ~predicted, member, chance, alpha / 2)
        outside = sample.population - inside
        recall = Interval(
            _share(inside * found.low, outside * missed.high),
            _share(inside * found.high, outside * missed.low),
        )
    return ClassQuality(column, inside, int(member.sum()), wrong.complement(), precision, recall)


def _part_interval(
    sample: AuditSample,
    part: NDArray[np.bool_],
    values: NDArray[np.bool_],
    chance: NDArray[np.float64],
    alpha: float,
) -> Interval:
    """Bound the mean of a value over part of the population: the draws in that part are a sample of it."""
    if not part.any():
        return Interval(0.0, 0.0)
    return sample.restrict(part).interval(values[part[sample.draws]], chance[part], alpha=alpha)


def _share(found: float, missed: float) -> float:
    return found / (found + missed) if found + missed > 0 else 1.0


def difference_interval(
    sample: AuditSample,
    first_errors: ArrayLike,
    second_errors: ArrayLike,
    first_expected: ArrayLike,
    second_expected: ArrayLike,
    differs: NDArray[np.bool_] | None = None,
    *,
    alpha: float = ALPHA,
) -> Interval:
    """Bound the mean error of the first model minus that of the second, over the population of an audit.

    Where two classifiers predict the same they err alike, so only the examples on which they differ are uncertain. The
    draws among those are a uniform sample of them. The interval is far narrower than the difference of two intervals.

    Args:
        sample: The draws of the audit.
        first_errors: (t,) errors of the first model, between 0 and 1, in draw order.
        second_errors: (t,) errors of the second model.
        first_expected: (N,) expected errors of the first model by position.
        second_expected: (N,) expected errors of the second model.
        differs: (N,) whether the predictions differ, by position. Default: everywhere, as for losses of numbers.
        alpha: Probability that some interval of the sequence misses the difference.
    """
    gaps = np.asarray(first_errors, dtype=np.float64) - np.asarray(second_errors, dtype=np.float64)  # (t,)
    control = np.asarray(first_expected, dtype=np.float64) - np.asarray(second_expected, dtype=np.float64)
    if gaps.shape != sample.draws.shape or control.shape != (sample.population,):
        raise ValueError(
            f"pass errors for {len(sample.draws)} draws and expected errors for {sample.population} examples, got "
            f"shapes {gaps.shape} and {control.shape}"
        )
    apart = np.ones(sample.population, dtype=bool) if differs is None else np.asarray(differs, dtype=bool)
    inside = apart[sample.draws]  # (t,)
    if np.any(gaps[~inside] != 0):
        raise ValueError("errors must be equal where the predictions do not differ: check `differs`")
    if not apart.any():
        return Interval(0.0, 0.0)
    part = sample.restrict(apart)
    halves = part.interval((1 + gaps[inside]) / 2, (1 + control[apart].clip(-1, 1)) / 2, alpha=alpha)
    share = float(apart.mean())
    return Interval(share * (2 * halves.low - 1), share * (2 * halves.high - 1))


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
