"""Several people's answers: how far they agree, and the one answer that counts for each example.

Agreement is Krippendorff's alpha: 1 is full agreement, 0 is chance. The answer of an example is the last correction,
else the answer that everybody gave, else the likeliest class by Dawid and Skene's model, which weighs people by the
mistakes they make. For numbers it is the median.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from jostle.labeling.answers import AnswerKind, Classes, StoredAnswer, as_class, as_classes, as_number
from jostle.labeling.schema import events, examples, standing
from jostle.labeling.store import EventKind, Purpose, Store, parse_value

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


@dataclass(frozen=True)
class CurrentAnswer:
    """One person's latest event on one example; merged classes have the number they have now."""

    seq: int
    key: str
    name: str
    person: str
    act: EventKind
    value: StoredAnswer | None
    purpose: Purpose | None
    here: bool
    seconds: float | None
    at: float


@dataclass(frozen=True)
class Snapshot:
    """Answers of all people at some time, and the ones that count."""

    answers: Sequence[CurrentAnswer]
    labels: dict[str, Any]  # stored answers by key


DISTANCES: dict[AnswerKind, Callable[..., float]] = {
    "one": nominal_distance,
    "several": jaccard_distance,
    "number": squared_distance,
}


def current_answers(store: Store, kind: AnswerKind, classes: Classes) -> list[CurrentAnswer]:
    """Return all events that were not superseded or withdrawn, the earliest first."""
    joined = (
        select(events, examples.c.name, examples.c.purpose, examples.c.here)
        .join(standing, standing.c.seq == events.c.seq)
        .join(examples, examples.c.key == events.c.key)
        .where(standing.c.act != "withdrawal")
        .order_by(events.c.seq)
    )
    with store.read_transaction() as tx:
        rows = tx.execute(joined).all()
    return [
        CurrentAnswer(
            row.seq, row.key, row.name, row.person, row.act,
            renumber(kind, parse_value(row.value), classes),
            row.purpose, row.here, row.seconds, row.at,
        )
        for row in rows
    ]  # fmt: skip


def renumber(kind: AnswerKind, value: StoredAnswer | None, classes: Classes) -> StoredAnswer | None:
    """Replace merged classes of a stored answer by the number they have now."""
    if value is None:
        return None
    if kind == "number":
        return value
    if kind == "one":
        return classes.merged[as_class(value)]
    return sorted({classes.merged[number] for number in as_classes(value)})


def aggregate(
    kind: AnswerKind, answers: Iterable[CurrentAnswer], classes: Classes
) -> dict[str, StoredAnswer]:
    """Return the one answer of each example: the last correction, or the consensus of all answers."""
    votes: dict[str, dict[str, StoredAnswer]] = defaultdict(dict)
    corrected: dict[str, StoredAnswer] = {}
    for one in answers:
        if one.act == "correction":
            assert one.value is not None
            corrected[one.key] = one.value
        elif one.act == "answer":
            assert one.value is not None
            votes[one.key][one.person] = one.value
    open_votes = {key: by for key, by in votes.items() if key not in corrected}
    return {**_combine(kind, open_votes, list(classes.names)), **corrected}


def _combine(
    kind: AnswerKind, votes: Mapping[str, Mapping[str, StoredAnswer]], numbers: Sequence[int]
) -> dict[str, StoredAnswer]:
    if kind == "number":
        return {key: float(np.median([as_number(v) for v in by.values()])) for key, by in votes.items()}
    if kind == "one":
        place = {number: i for i, number in enumerate(numbers)}
        ballots = {key: {who: place[as_class(v)] for who, v in by.items()} for key, by in votes.items()}
        return {key: numbers[i] for key, i in consensus(ballots, len(numbers)).items()}
    sets: dict[str, list[int]] = {key: [] for key in votes}
    for number in numbers:
        having = {
            key: {who: int(number in as_classes(v)) for who, v in by.items()} for key, by in votes.items()
        }
        for key, yes in consensus(having, 2).items():
            sets[key] += [number] if yes else []
    return {**sets}


def agreement(kind: AnswerKind, answers: Iterable[CurrentAnswer]) -> float | None:
    """Return Krippendorff's alpha over the examples that several people answered."""
    units: dict[str, list[Hashable]] = defaultdict(list)
    for one in answers:
        if one.act == "answer" and one.value is not None:
            units[one.key].append(
                frozenset(as_classes(one.value)) if kind == "several" else as_number(one.value)
            )
    return krippendorff_alpha(list(units.values()), DISTANCES[kind])
