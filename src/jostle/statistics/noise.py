"""Label noise: how much of the gap is disagreement, and whether to ask again or something new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from jostle.statistics.confidence import ALPHA, Array, Interval


@dataclass(frozen=True)
class NoiseShare:
    """The measured error, parted into errors of people and errors of the model.

    Attributes:
        answer_error: Estimated share of wrong answers.
        answer_error_interval: Its bounds.
        model_error: Estimated error of the model against true classes.
        share: Share of the measured error that disappears if answers were right.
    """

    answer_error: float
    answer_error_interval: Interval
    model_error: float
    share: float


def answer_error_rate(disagreement: float, classes: int) -> float:
    """Return the share of wrong answers if two people disagree on a given share of examples.

    Errors are independent and fall on each other class alike, so the disagreement is d = 2 w - w^2 c / (c - 1).
    """
    if not 0 <= disagreement <= 1 or classes < 2:
        raise ValueError(
            f"pass a disagreement between 0 and 1 and two or more classes, got {disagreement} and {classes}"
        )
    ratio = classes / (classes - 1)
    return float((1 - np.sqrt(max(1 - ratio * disagreement, 0.0))) / ratio)


def share_of_noise(
    error: float, disagreed: int, asked_twice: int, classes: int, *, alpha: float = ALPHA
) -> NoiseShare:
    """Part a measured error into noise of the answers and error of the model.

    A wrong answer makes a right prediction look wrong. With the true error h of the model and a share w of wrong
    answers, the measured error is w + h (1 - w c / (c - 1)).

    Args:
        error: Error of the model against the audited answers.
        disagreed: Examples on which two people disagree.
        asked_twice: Examples that two people answered.
        classes: Number of classes.
        alpha: Probability that the interval misses.
    """
    if not 0 <= disagreed <= asked_twice or not asked_twice:
        raise ValueError(
            f"{disagreed} disagreements in {asked_twice} examples are impossible: pass examples answered twice"
        )
    low = float(beta.ppf(alpha / 2, disagreed, asked_twice - disagreed + 1)) if disagreed else 0.0
    high = (
        float(beta.ppf(1 - alpha / 2, disagreed + 1, asked_twice - disagreed))
        if disagreed < asked_twice
        else 1.0
    )
    wrong = answer_error_rate(disagreed / asked_twice, classes)
    bounds = Interval(answer_error_rate(low, classes), answer_error_rate(high, classes))
    hidden = max(1 - wrong * classes / (classes - 1), 1e-12)
    own = float(np.clip((error - wrong) / hidden, 0, 1))
    share = float(np.clip(1 - own / error, 0, 1)) if error > 0 else 0.0
    return NoiseShare(wrong, bounds, own, share)


def posterior_classes(probabilities: ArrayLike, votes: ArrayLike, answer_error: ArrayLike) -> Array:
    """Combine a model's out-of-sample probabilities with people's answers by Bayes' rule.

    Args:
        probabilities: (n, c) by a model that did not see the answers of these examples.
        votes: (n, people) answered classes; -1 where a person was not asked.
        answer_error: (people,) share of wrong answers of each person, or one number for all.

    Returns:
        (n, c) probabilities of the true class.
    """
    prior, said = np.asarray(probabilities, dtype=np.float64), np.asarray(votes, dtype=np.int64)
    classes = prior.shape[1]
    slip = np.broadcast_to(np.asarray(answer_error, dtype=np.float64), said.shape[1:]).clip(1e-3, 0.999)
    log = np.log(prior.clip(1e-6))
    for person in range(said.shape[1]):
        given = np.flatnonzero(said[:, person] >= 0)
        log[given] += np.log(slip[person] / (classes - 1))
        log[given, said[given, person]] += np.log((1 - slip[person]) * (classes - 1) / slip[person])
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    result: Array = likely / likely.sum(axis=1, keepdims=True)
    return result


def value_of_answer(posterior: ArrayLike, answer_error: float) -> Array:
    """Return by how much one more answer raises the chance of knowing each example's class, (n,).

    The gain is the expected largest posterior probability after the answer, less that before. Examples with answers
    and without any compare on one scale, so the largest gain says whether to ask again or something new. A further
    answer is worth asking only where it can change the decision.

    Args:
        posterior: (n, c) probabilities of the true class given the answers so far.
        answer_error: Share of wrong answers of the person to ask.
    """
    belief = np.asarray(posterior, dtype=np.float64)
    classes = belief.shape[1]
    other = answer_error / (classes - 1)
    after = np.zeros(len(belief))
    for said in range(classes):
        joint = belief * other  # (n, c) of this answer and each true class
        joint[:, said] = belief[:, said] * (1 - answer_error)
        after += joint.max(axis=1)
    result: Array = after - belief.max(axis=1)
    return result.clip(min=0)
