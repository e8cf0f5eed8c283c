"""Several people: how far they agree, and what they say together.

Agreement is Krippendorff's alpha: 1 is full agreement, 0 what chance gives. The consensus of one example is, in this
order: the last correction; what everybody said; the likeliest class by Dawid and Skene's model, which weighs people
by the mistakes they make; for numbers the median.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Votes = Mapping[str, Mapping[str, int]]  # key -> person -> class
SURE, SLIP = (
    4.0,
    1.0,
)  # what is believed of a person beforehand, in answers: right so often, each mistake so often
ROUNDS = 50  # of expectation and maximisation


def differs(a: Hashable, b: Hashable) -> float:
    """The distance of two classes."""
    return float(a != b)


def overlap_lacks(a: frozenset[int], b: frozenset[int]) -> float:
    """The distance of two sets of classes: the share of their union that they do not share."""
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


def squared(a: float, b: float) -> float:
    """The distance of two numbers."""
    return (a - b) ** 2


def alpha(units: Sequence[Sequence[Hashable]], distance: Callable[..., float] = differs) -> float | None:
    """Krippendorff's alpha of answers by example; None where no example has two, or all answers are the same."""
    paired = [unit for unit in units if len(unit) > 1]
    total = sum(map(len, paired))
    if total < 2:
        return None
    if distance is squared:
        observed, expected = _squares(paired, total)
    else:
        observed = sum(_apart(Counter(unit), distance) / (len(unit) - 1) for unit in paired) / total
        expected = _apart(Counter(answer for unit in paired for answer in unit), distance) / (
            total * (total - 1)
        )
    return None if expected == 0 else 1 - observed / expected


def _apart(counts: Counter[Hashable], distance: Callable[..., float]) -> float:
    """The sum of distances over all ordered pairs."""
    return sum(n * m * distance(a, b) for a, n in counts.items() for b, m in counts.items() if a != b)


def _squares(units: Sequence[Sequence[Hashable]], total: int) -> tuple[float, float]:
    """Observed and expected squared distance, without looking at pairs."""

    def pairs(values: NDArray[np.float64]) -> float:
        return float(2 * len(values) ** 2 * values.var())  # the sum over all ordered pairs

    groups = [np.array(unit, dtype=np.float64) for unit in units]
    observed = sum(pairs(group) / (len(group) - 1) for group in groups) / total
    return observed, pairs(np.concatenate(groups)) / (total * (total - 1))


def dawid_skene(votes: Votes, classes: int) -> dict[str, NDArray[np.float64]]:
    """The probability of each class for each example, people weighted by how often they err, and in which way.

    Expectation and maximisation from the share of votes; a person's confusion of classes begins with a belief of
    `SURE` right answers and one slip to each other class, so that few answers do not make anybody infallible.
    """
    people = sorted({person for given in votes.values() for person in given})
    keys = list(votes)
    said = np.full((len(keys), len(people)), -1)  # (n, people)
    for row, key in enumerate(keys):
        for person, answer in votes[key].items():
            said[row, people.index(person)] = answer
    ballots = np.stack([(said == c) for c in range(classes)], axis=2).astype(np.float64)  # (n, people, c)
    belief = ballots.sum(1) / ballots.sum((1, 2), keepdims=False)[:, None]  # (n, c)
    before = np.full((classes, classes), SLIP) + (SURE - SLIP) * np.eye(classes)
    for _ in range(ROUNDS):
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
    """The class of each example: what all said, or the likeliest by `dawid_skene`; of equals the smallest number."""
    disputed = any(len(set(given.values())) > 1 for given in votes.values())
    if not disputed:
        return {key: next(iter(given.values())) for key, given in votes.items()}
    likely = dawid_skene({key: given for key, given in votes.items() if len(given) > 1}, classes)
    return {
        key: next(iter(given.values())) if len(set(given.values())) == 1 else int(likely[key].argmax())
        for key, given in votes.items()
    }
