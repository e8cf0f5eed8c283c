"""Agreement of several people, and of two models: Krippendorff's alpha, consensus, Cohen's kappa.

Alpha is 1 for full agreement and 0 for chance. The consensus of an example is the class that everybody chose, else the
likeliest one by Dawid and Skene's model, which weighs people by the mistakes they make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Votes = Mapping[str, Mapping[str, int]]  # key -> person -> class
PRIOR_RIGHT, PRIOR_WRONG = (
    4.0,
    1.0,
)  # what is believed of a person beforehand, in answers: right so often, each mistake so often
MAX_EM_STEPS = 50  # of expectation and maximization


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
    belief = ballots.sum(1) / ballots.sum((1, 2), keepdims=False)[:, None]  # (n, c)
    before = np.full((classes, classes), PRIOR_WRONG) + (PRIOR_RIGHT - PRIOR_WRONG) * np.eye(classes)
    for _ in range(MAX_EM_STEPS):
        confusion = np.einsum("nt,npc->ptc", belief, ballots) + before  # (people, true, said)
        confusion /= confusion.sum(2, keepdims=True)
        prior = (belief.sum(0) + 1) / (len(keys) + classes)  # (c,)
        log = np.log(prior) + np.einsum("npc,ptc->nt", ballots, np.log(confusion))  # (n, c)
        new = np.exp(log - log.max(1, keepdims=True))
        new /= new.sum(1, keepdims=True)
        settled = float(np.abs(new - belief).max()) < 1e-6
        belief = new
        if settled:
            break
    return dict(zip(keys, belief, strict=True))


def consensus(votes: Votes, classes: int) -> dict[str, int]:
    """Return the class of each example: the one all chose, or the likeliest by `dawid_skene`; of equals the first."""
    disputed = any(len(set(given.values())) > 1 for given in votes.values())
    if not disputed:
        return {key: next(iter(given.values())) for key, given in votes.items()}
    likely = dawid_skene({key: given for key, given in votes.items() if len(given) > 1}, classes)
    return {
        key: next(iter(given.values())) if len(set(given.values())) == 1 else int(likely[key].argmax())
        for key, given in votes.items()
    }


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
