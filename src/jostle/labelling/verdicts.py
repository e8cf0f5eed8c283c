"""What is known of each example: everybody's answers, and the one that counts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select

from jostle.labelling.agreement import alpha, consensus, differs, overlap_lacks, squared
from jostle.labelling.answers import AnswerKind, Classes, Stored, class_of, number_of, set_of
from jostle.labelling.schema import acts, examples, standing
from jostle.labelling.store import Act, Purpose, Store


@dataclass(frozen=True)
class Given:
    """What one person last said of one example; classes are numbered as they are now."""

    seq: int
    key: str
    name: str
    person: str
    act: Act
    value: Stored | None
    purpose: Purpose | None
    here: bool
    seconds: float | None
    at: float


DISTANCES: dict[AnswerKind, Callable[..., float]] = {
    "one": differs,
    "several": overlap_lacks,
    "number": squared,
}


def given(store: Store, kind: AnswerKind, classes: Classes) -> list[Given]:
    """All acts that stand and were not withdrawn, the earliest first."""
    joined = (
        select(acts, examples.c.name, examples.c.purpose, examples.c.here)
        .join(standing, standing.c.seq == acts.c.seq)
        .join(examples, examples.c.key == acts.c.key)
        .where(standing.c.act != "withdrawal")
        .order_by(acts.c.seq)
    )
    with store.reading() as tx:
        rows = tx.execute(joined).all()
    return [
        Given(
            row.seq, row.key, row.name, row.person, row.act, now(kind, row.value, classes), row.purpose, row.here,
            row.seconds, row.at,
        )
        for row in rows
    ]  # fmt: skip


def now(kind: AnswerKind, written: str | None, classes: Classes) -> Stored | None:
    """A written answer with its classes numbered as they are now."""
    if written is None:
        return None
    value: Stored = json.loads(written)
    if kind == "number":
        return value
    if kind == "one":
        return classes.merged[class_of(value)]
    return sorted({classes.merged[number] for number in set_of(value)})


def decided(kind: AnswerKind, answers: Iterable[Given], classes: Classes) -> dict[str, Stored]:
    """The answer of each example by the rule of `agreement`: the last correction, or what people say together."""
    votes: dict[str, dict[str, Stored]] = defaultdict(dict)
    corrected: dict[str, Stored] = {}
    for one in answers:
        if one.act == "correction":
            assert one.value is not None
            corrected[one.key] = one.value
        elif one.act == "answer":
            assert one.value is not None
            votes[one.key][one.person] = one.value
    open_votes = {key: by for key, by in votes.items() if key not in corrected}
    return {**_together(kind, open_votes, list(classes.names)), **corrected}


def _together(
    kind: AnswerKind, votes: Mapping[str, Mapping[str, Stored]], numbers: Sequence[int]
) -> dict[str, Stored]:
    if kind == "number":
        return {key: float(np.median([number_of(v) for v in by.values()])) for key, by in votes.items()}
    if kind == "one":
        place = {number: i for i, number in enumerate(numbers)}
        ballots = {key: {who: place[class_of(v)] for who, v in by.items()} for key, by in votes.items()}
        return {key: numbers[i] for key, i in consensus(ballots, len(numbers)).items()}
    sets: dict[str, list[int]] = {key: [] for key in votes}
    for number in numbers:
        having = {key: {who: int(number in set_of(v)) for who, v in by.items()} for key, by in votes.items()}
        for key, yes in consensus(having, 2).items():
            sets[key] += [number] if yes else []
    return {**sets}


def agreement(kind: AnswerKind, answers: Iterable[Given]) -> float | None:
    """Krippendorff's alpha over the examples that several people answered."""
    units: dict[str, list[Hashable]] = defaultdict(list)
    for one in answers:
        if one.act == "answer" and one.value is not None:
            units[one.key].append(frozenset(set_of(one.value)) if kind == "several" else number_of(one.value))
    return alpha(list(units.values()), DISTANCES[kind])
