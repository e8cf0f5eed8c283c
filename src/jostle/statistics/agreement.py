"""Answers of several people and of models: agreement, consensus, label noise, likely mistakes.

Krippendorff's alpha is 1 for full agreement and 0 for chance. The consensus of an example is the class that everybody
chose, else the likeliest one by Dawid and Skene's model, which weighs people by the mistakes they make.

A model that is right on average contradicts many right answers: those to examples that are hard for it. So a
contradiction alone is no reason to doubt an answer. Two things are fitted together, by maximum likelihood, to
predictions that cross-validation made: how sure of itself the model should be (a temperature), and how often people
slip. A slip is an answer drawn from all others alike. Bayes' rule then gives the probability that an answer is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from jostle.statistics.confidence import Array

Votes = Mapping[str, Mapping[str, int]]  # key -> person -> class
PRIOR_RIGHT, PRIOR_WRONG = 4.0, 1.0  # believed of a person beforehand, in answers: right, and each mistake
MAX_EM_STEPS = 50  # of expectation and maximization
EVEN = 0.5  # an answer is doubted when it is more likely a mistake than not
TEMPERATURES = np.exp(np.linspace(-2.0, 1.0, 31))
SLIP_RATES = np.concatenate([[1e-4], np.geomspace(0.002, 0.3, 40)])  # shares of answers
PRIOR_SLIPS, PRIOR_ANSWERS = 0.5, 10.0  # what is believed beforehand: half a slip in ten answers
SMALLEST = 1e-7  # probability; those on disk have 16 bits


def nominal_distance(a: Hashable, b: Hashable) -> float:
    """Return the distance of two classes: 0 or 1."""
    return float(a != b)


def jaccard_distance(a: frozenset[int], b: frozenset[int]) -> float:
    """Return the distance of two sets of classes: the share of their union that they do not share."""
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


def squared_distance(a: float, b: float) -> float:
    """Return the squared difference of two numbers."""
    return (a - b) ** 2


def krippendorff_alpha(
    units: Sequence[Sequence[Hashable]], distance: Callable[..., float] = nominal_distance
) -> float | None:
    """Return Krippendorff's alpha of answers by example; None where no example has two, or all answers are equal."""
    paired = [unit for unit in units if len(unit) > 1]
    total = sum(map(len, paired))
    if total < 2:
        return None
    if distance is squared_distance:
        observed, expected = _squared_disagreement(paired, total)
    else:
        observed = sum(_sum_distances(Counter(unit), distance) / (len(unit) - 1) for unit in paired) / total
        expected = _sum_distances(Counter(answer for unit in paired for answer in unit), distance) / (
            total * (total - 1)
        )
    return None if expected == 0 else 1 - observed / expected


def _sum_distances(counts: Counter[Hashable], distance: Callable[..., float]) -> float:
    """The sum of distances over all ordered pairs."""
    return sum(n * m * distance(a, b) for a, n in counts.items() for b, m in counts.items() if a != b)


def _squared_disagreement(units: Sequence[Sequence[Hashable]], total: int) -> tuple[float, float]:
    """Observed and expected squared distance, without looking at pairs."""

    def pairs(values: NDArray[np.float64]) -> float:
        return float(2 * len(values) ** 2 * values.var())  # the sum over all ordered pairs

    groups = [np.array(unit, dtype=np.float64) for unit in units]
    observed = sum(pairs(group) / (len(group) - 1) for group in groups) / total
    return observed, pairs(np.concatenate(groups)) / (total * (total - 1))


def dawid_skene(votes: Votes, classes: int) -> dict[str, NDArray[np.float64]]:
    """Return the probability of each class for each example; people are weighted by their mistakes.

    Expectation and maximization start from the share of votes. A person's confusion matrix has a prior of `PRIOR_RIGHT`
    right answers and `PRIOR_WRONG` mistakes for each other class, so that few answers do not make anybody infallible.
    """
    people = sorted({person for given in votes.values() for person in given})
    keys = list(votes)
    said = np.full((len(keys), len(people)), -1)  # (n, people)
    for row, key in enumerate(keys):
        for person, answer in votes[key].items():
            said[row, people.index(person)] = answer
    ballots = np.stack([(said == c) for c in range(classes)], axis=2).astype(np.float64)  # (n, people, c)
    belief = ballots.sum(1) / ballots.sum((1, 2))[:, None]  # (n, c)
    expected = np.full((classes, classes), PRIOR_WRONG) + (PRIOR_RIGHT - PRIOR_WRONG) * np.eye(classes)
    for _ in range(MAX_EM_STEPS):
        confusion = np.einsum("nt,npc->ptc", belief, ballots) + expected  # (people, true, said)
        confusion /= confusion.sum(2, keepdims=True)
        prior = (belief.sum(0) + 1) / (len(keys) + classes)  # (c,)
        log = np.log(prior) + np.einsum("npc,ptc->nt", ballots, np.log(confusion))  # (n, c)
        before, belief = belief, softmax(log, axis=1)
        if np.abs(belief - before).max() < 1e-6:
            break
    return dict(zip(keys, belief, strict=True))


def consensus(votes: Votes, classes: int) -> dict[str, int]:
    """Return the class of each example: the one all chose, or the likeliest by `dawid_skene`; of equals the first."""
    found = {key: next(iter(given.values())) for key, given in votes.items()}
    disputed = [key for key, given in votes.items() if len(set(given.values())) > 1]
    if disputed:
        likely = dawid_skene({key: given for key, given in votes.items() if len(given) > 1}, classes)
        found |= {key: int(likely[key].argmax()) for key in disputed}
    return found


def kappa(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return Cohen's kappa of two lists of classes; 1 where both have one and the same class throughout."""
    if len(first) != len(second) or not len(first):
        raise ValueError(f"kappa compares two lists of one length; got {len(first)} and {len(second)}")
    observed = float((first == second).mean())
    shares = [{c: float((labels == c).mean()) for c in np.unique(labels)} for labels in (first, second)]
    expected = sum(share * shares[1].get(c, 0.0) for c, share in shares[0].items())
    return 1.0 if expected >= 1 - 1e-12 else (observed - expected) / (1 - expected)


def kappa_of_sets(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the mean over classes of the kappa of having the class; both are (n, c)."""
    each = [kappa(a.astype(np.int64), b.astype(np.int64)) for a, b in zip(first.T, second.T, strict=True)]
    return float(np.mean(each))


def concordance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Lin's concordance of two lists of numbers, which is kappa weighted by squares; 1 where they are equal."""
    apart = float(((first - second) ** 2).mean())
    spread = float(first.var() + second.var() + (first.mean() - second.mean()) ** 2)
    return 1.0 if apart == 0 else 1 - apart / spread


@dataclass(frozen=True)
class NoiseShare:
    """The measured error, parted into errors of people and errors of the model.

    Attributes:
        answer_error: Estimated share of wrong answers.
        model_error: Estimated error of the model against true classes.
    """

    answer_error: float
    model_error: float


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


def share_of_noise(error: float, disagreed: int, asked_twice: int, classes: int) -> NoiseShare:
    """Part a measured error into noise of the answers and error of the model.

    A wrong answer makes a right prediction look wrong. With the true error h of the model and a share w of wrong
    answers, the measured error is w + h (1 - w c / (c - 1)).

    Args:
        error: Error of the model against the audited answers.
        disagreed: Examples on which two people disagree.
        asked_twice: Examples that two people answered.
        classes: Number of classes.
    """
    if not 0 <= disagreed <= asked_twice or not asked_twice:
        raise ValueError(
            f"{disagreed} disagreements in {asked_twice} examples are impossible: pass examples answered twice"
        )
    wrong = answer_error_rate(disagreed / asked_twice, classes)
    hidden = max(1 - wrong * classes / (classes - 1), 1e-12)
    return NoiseShare(wrong, float(np.clip((error - wrong) / hidden, 0, 1)))


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
    return np.asarray(softmax(log, axis=1))


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
    return np.asarray((after - belief.max(axis=1)).clip(min=0))


def class_mistakes(probabilities: Array, answers: NDArray[np.int64]) -> Array:
    """Return the probability that each answer is a mistake.

    Args:
        probabilities: Of the classes, (m, c), each row made without its answer.
        answers: Column of the class that was answered, (m,).
    """
    logs = np.log(np.maximum(probabilities, SMALLEST))  # (m, c)
    rows, others = np.arange(len(answers)), max(probabilities.shape[1] - 1, 1)
    rights = [softmax(logs / temperature, axis=1)[rows, answers] for temperature in TEMPERATURES]
    return _likeliest_slips((right, (1 - right) / others) for right in rights)


def number_mistakes(predicted: Array, answers: Array) -> Array:
    """Return the probability that each number is a mistake: right ones err by Laplace's law, slips lie anywhere.

    Args:
        predicted: Numbers of a model, (m,), each made without its answer.
        answers: Numbers that were answered, (m,).
    """
    off, span = np.abs(predicted - answers), float(np.ptp(answers))
    typical = float(np.median(off)) / np.log(2)  # the scale of Laplace's law
    if not span or not typical:
        return np.zeros(len(answers))
    slipped, scales = np.full(len(off), 1 / span), TEMPERATURES * typical
    return _likeliest_slips((np.exp(-off / scale) / (2 * scale), slipped) for scale in scales)


def set_mistakes(probabilities: Array, answers: NDArray[np.bool_]) -> Array:
    """Return the probability that each set of classes has a mistake: that of its most doubtful class.

    Args:
        probabilities: That each class is right, (m, c), each row made without its answer.
        answers: Classes that were answered, (m, c).
    """
    columns = [
        class_mistakes(np.column_stack([1 - chance, chance]), said.astype(np.int64))
        for chance, said in zip(probabilities.T, answers.T, strict=True)
    ]
    return np.max(columns, axis=0) if columns else np.zeros(len(answers))


def _likeliest_slips(candidates: Iterable[tuple[Array, Array]]) -> Array:
    """Return the probability of a slip for each answer, (m,), by the likeliest candidate and slip rate.

    Args:
        candidates: Pairs of the likelihood of each answer of somebody who does not slip, (m,), and as a slip, (m,).
    """
    return max(map(_fit_slips, candidates), key=itemgetter(0))[1]


def _fit_slips(likelihoods: tuple[Array, Array]) -> tuple[float, Array]:
    """Return the best log posterior over slip rates, and the probability of a slip for each answer."""
    right, slipped = likelihoods
    rates = SLIP_RATES[:, None]
    fits = np.log((1 - rates) * right + rates * slipped + 1e-300).sum(1)  # (rates,)
    fits += PRIOR_SLIPS * np.log(SLIP_RATES) + (PRIOR_ANSWERS - PRIOR_SLIPS) * np.log(1 - SLIP_RATES)
    place = int(fits.argmax())
    rate = SLIP_RATES[place]
    return float(fits[place]), rate * slipped / ((1 - rate) * right + rate * slipped + 1e-300)
