"""Several people's answers: how far they agree, and the one answer that counts for each example.

Agreement is Krippendorff's alpha: 1 is full agreement, 0 is chance. The answer of an example is the last correction,
else the answer that everybody gave, else the likeliest class by Dawid and Skene's model, which weighs people by the
mistakes they make. For numbers it is the median.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import AnswerKind, Classes, StoredAnswer
from jostle.labeling.schema import events, examples, standing
from jostle.labeling.store import EventKind, Purpose, Store, parse_value
from jostle.statistics.agreement import krippendorff_alpha


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
    return None if value is None else ANSWER_TYPES[kind].renumber(value, classes)


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
    return {**ANSWER_TYPES[kind].combine(open_votes, list(classes.names)), **corrected}


def agreement(kind: AnswerKind, answers: Iterable[CurrentAnswer]) -> float | None:
    """Return Krippendorff's alpha over the examples that several people answered."""
    answer_type = ANSWER_TYPES[kind]
    units: dict[str, list[Hashable]] = defaultdict(list)
    for one in answers:
        if one.act == "answer" and one.value is not None:
            units[one.key].append(answer_type.comparable(one.value))
    return krippendorff_alpha(list(units.values()), answer_type.distance)
