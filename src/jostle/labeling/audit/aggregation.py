"""Several people's answers: how far they agree, and the one answer that counts for each example.

Agreement is Krippendorff's alpha: 1 is full agreement, 0 is chance. The answer of an example is the last correction,
else the answer that everybody gave, else the likeliest class by Dawid and Skene's model, which weighs people by the
mistakes they make. For numbers it is the median.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import select, update

from jostle.labeling.answer_types import AnswerType
from jostle.labeling.answers import Classes, StoredAnswer, as_class
from jostle.labeling.store import EventKind, Purpose, Store
from jostle.labeling.store.schema import events, examples, queue, standing
from jostle.statistics import answer_error_rate, posterior_classes, value_of_answer
from jostle.statistics.agreement import krippendorff_alpha

if TYPE_CHECKING:
    from jostle.labeling.session import Session


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


def read_snapshot(store: Store, type: AnswerType, classes: Classes) -> Snapshot:
    """Read all events that were not superseded or withdrawn, the earliest first."""
    joined = (
        select(events, examples.c.name, examples.c.purpose, examples.c.here)
        .join(standing, standing.c.seq == events.c.seq)
        .join(examples, examples.c.key == events.c.key)
        .where(standing.c.act != "withdrawal")
        .order_by(events.c.seq)
    )
    answers = [
        CurrentAnswer(
            row.seq, row.key, row.name, row.person, row.act,
            None if row.value is None else type.renumber(json.loads(row.value), classes),
            row.purpose, row.here, row.seconds, row.at,
        )
        for row in store.rows(joined)
    ]  # fmt: skip
    return Snapshot(answers, aggregate(type, answers, classes))


def aggregate(
    type: AnswerType, answers: Iterable[CurrentAnswer], classes: Classes
) -> dict[str, StoredAnswer]:
    """Return the one answer of each example: the last correction, or the consensus of all answers."""
    votes: dict[str, dict[str, StoredAnswer]] = defaultdict(dict)
    corrected: dict[str, StoredAnswer] = {}
    for one in answers:
        if one.value is not None:  # no skip
            if one.act == "correction":
                corrected[one.key] = one.value
            else:
                votes[one.key][one.person] = one.value
    open_votes = {key: by for key, by in votes.items() if key not in corrected}
    return {**type.combine(open_votes, list(classes.names)), **corrected}


def agreement(type: AnswerType, answers: Iterable[CurrentAnswer]) -> float | None:
    """Return Krippendorff's alpha over the examples that several people answered."""
    units: dict[str, list[Hashable]] = defaultdict(list)
    for one in answers:
        if one.act == "answer" and one.value is not None:
            units[one.key].append(type.comparable(one.value))
    return krippendorff_alpha(list(units.values()), type.distance)


MIN_TWICE = 20  # examples that two people answered, before their disagreement says something
ANSWER_ERROR = 0.1  # assumed share of wrong answers until then


def random_share(type: AnswerType, overlap: float) -> float:
    """Return the share of examples that two people answer by chance; the rest of the overlap is steered."""
    return overlap / 2 if type.has_one_class and overlap < 1 else overlap


def count_disagreements(session: Session) -> tuple[int, int]:
    """Return how many examples of the random overlap two people answered differently, and how many they answered."""
    first: dict[str, object] = {}
    differs: dict[str, bool] = {}
    for one in session.snapshot().answers:
        if one.act == "answer" and session.index.copies(one.key) > 1:
            if one.key in first and one.key not in differs:
                differs[one.key] = one.value != first[one.key]
            first.setdefault(one.key, one.value)
    return sum(differs.values()), len(differs)


def ask_again(session: Session) -> list[str]:
    """Have one more person answer examples where that is worth more than an answer to a new one; return their keys.

    Values are compared with those of the next picks (`jostle.statistics.value_of_answer`). Examples of the audit are
    left out: a model that chose which audit answers are checked would change its own score.
    """
    settings, found = session.settings, session.predictions()
    most = round((settings.overlap - random_share(session.type, settings.overlap)) * settings.batch)
    if found is None or not found.out_of_sample or not most:
        return []
    merged = session.book.classes().merged
    column = {merged[int(number)]: place for place, number in enumerate(found.numbers)}
    votes = defaultdict[str, list[int]](list)
    for one in session.snapshot().answers:
        if one.purpose == "pick" and one.here and one.key in found.places:
            said = column.get(as_class(one.value)) if one.act == "answer" and one.value is not None else None
            votes[one.key].append(-1 if said is None else said)
    ranked = select(queue.c.key).join(examples, examples.c.key == queue.c.key).order_by(queue.c.rank)
    ranked = ranked.where(queue.c.round == session.store.current_round(), queue.c.purpose == "pick")
    coming = session.store.column(ranked.where(examples.c.purpose.is_(None)))
    new = [found.places[key] for key in coming if key in found.places][: settings.batch]
    asked = dict(session.store.rows(select(examples.c.key, examples.c.copies)))
    settled = [key for key, said in votes.items() if -1 not in said and len(said) == asked[key]]
    if not settled or not new:
        return []
    differed, twice = count_disagreements(session)
    wrong = answer_error_rate(differed / twice, max(len(column), 2)) if twice >= MIN_TWICE else ANSWER_ERROR
    people = max(len(votes[key]) for key in settled)
    given = np.array([votes[key] + [-1] * (people - len(votes[key])) for key in settled])
    posterior = posterior_classes(found.scores[[found.places[key] for key in settled]], given, wrong)
    gains, usual = value_of_answer(posterior, wrong), value_of_answer(found.scores[new], wrong)
    best = [settled[i] for i in np.argsort(-gains, kind="stable")[:most] if gains[i] > np.median(usual)]
    with session.store.write_transaction() as tx:
        tx.execute(update(examples).where(examples.c.key.in_(best)).values(copies=examples.c.copies + 1))
    return best
