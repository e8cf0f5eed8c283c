"""Quality of models on one audit: accuracy, precision and recall of each class, and the difference of two models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jostle.statistics.confidence import ALPHA, AuditSample, Interval

MIN_ANSWERS = 20  # audited answers before an interval is worth showing


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
    return [_class_quality(sample, answers, chances, c, alpha, min_answers) for c in range(chances.shape[1])]


def _class_quality(
    sample: AuditSample,
    labels: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    column: int,
    alpha: float,
    min_answers: int,
) -> ClassQuality:
    chance = probabilities[:, column].clip(0, 1)  # (N,)
    predicted = probabilities.argmax(axis=1) == column  # (N,)
    member, taken = labels == column, predicted[sample.draws]  # (t,)
    wrong = sample.interval(member != taken, np.where(predicted, 1 - chance, chance), alpha=alpha)
    hits = _part_interval(sample, predicted, member, chance, alpha)
    precision = hits if int(taken.sum()) >= min_answers else None
    recall = None
    if int(member.sum()) >= min_answers:
        found = _part_interval(sample, predicted, member, chance, alpha / 2)
        missed = _part_interval(sample, ~predicted, member, chance, alpha / 2)
        inside, outside = int(predicted.sum()), int((~predicted).sum())
        recall = Interval(
            _share(inside * found.low, outside * missed.high),
            _share(inside * found.high, outside * missed.low),
        )
    return ClassQuality(
        column, int(predicted.sum()), int(member.sum()), wrong.complement(), precision, recall
    )


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
