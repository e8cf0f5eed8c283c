"""Suggestions of any model: kept by content, hidden like the project's own, measured by the audit.

A suggestion can sway an answer, so it is shown only where the project's model may show one (see `is_blind`), and who
saw it is recorded. Audited answers were all given without one: they say how often suggestions are right.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import delete, exists, func, select

from jostle.labeling import audit
from jostle.labeling.answers import StoredAnswer, as_class, clean_person_name
from jostle.labeling.audit import queue
from jostle.labeling.audit.scoring import as_predictions, number_range
from jostle.labeling.records import NewData, SecondOpinion, SuggesterStatus, Suggestion
from jostle.labeling.store.schema import examples, standing, suggestions, suggestions_shown
from jostle.labeling.store.schema import queue as ranking
from jostle.statistics import ALPHA, estimate_mean

if TYPE_CHECKING:
    from jostle.labeling.session import Session
    from jostle.labeling.training.learners import Learner
    from jostle.labeling.training.rounds import TrainingSet

STATUS = "suggestions"  # setting that holds a `SuggesterStatus`
OWN = "model"  # source of the project's own suggestions
NOTHING = ""  # source where a person looked and none was shown
ENOUGH = 100  # suggestions for a first ranking by them

# By key: answer and chance; None: no suggestion.
Found = Mapping[str, tuple[StoredAnswer, float | None] | None]


def read_status(session: Session) -> SuggesterStatus | None:
    """Return the status of the suggestions; None where the project has none."""
    held = session.store.setting(STATUS)
    return None if held is None else SuggesterStatus(**held)


def write_status(session: Session, status: SuggesterStatus | None) -> None:
    """Write the status of the suggestions; None: the project has none any more."""
    session.store.save_settings(**{STATUS: None if status is None else asdict(status)})


def save(session: Session, source: str, found: Found, *, whole: bool = False) -> None:
    """Save suggestions; with `whole` they replace all of their source."""
    now = session.store.clock()
    rows = [
        {
            "source": source,
            "key": key,
            "answer": None if each is None else json.dumps(each[0]),
            "chance": None if each is None else each[1],
            "at": now,
        }
        for key, each in found.items()
    ]
    with session.store.write_transaction() as tx:
        if whole:
            tx.execute(delete(suggestions).where(suggestions.c.source == source))
        session.store.upsert(tx, suggestions, ["source", "key"], rows)


def load(
    session: Session, source: str, keys: Collection[str] | None = None
) -> dict[str, tuple[Any, float | None]]:
    """Return suggestions of a source by key: answers as they are stored, and chances; `keys` None: all of them."""
    wanted = select(suggestions).where(suggestions.c.source == source, suggestions.c.answer.is_not(None))
    if keys is not None:
        wanted = wanted.where(suggestions.c.key.in_(list(keys)))
    return {row.key: (json.loads(row.answer), row.chance) for row in session.store.rows(wanted)}


def count(session: Session, source: str) -> int:
    """Return the number of examples that have a suggestion."""
    made = select(func.count()).where(suggestions.c.source == source, suggestions.c.answer.is_not(None))
    return int(session.store.value(made))


def next_keys(session: Session, source: str, n: int) -> list[str]:
    """Return up to n examples to suggest next: what is asked next, what was audited, then all others by their keys.

    Nothing here depends on whether a question is a pick or an audit: neither has its suggestion sooner.
    """
    made = exists().where(suggestions.c.source == source, suggestions.c.key == examples.c.key)
    answered = exists().where(standing.c.key == examples.c.key)
    free = select(examples.c.key).where(examples.c.here, ~made)
    ranked = ranking.c.round == session.store.current_round()
    orders = (
        free.join(ranking, ranking.c.key == examples.c.key).where(ranked, ~answered).order_by(ranking.c.rank),
        free.where(examples.c.purpose == "audit").order_by(examples.c.key),
        free.order_by(examples.c.key),  # a hash: a random order
    )
    found: dict[str, None] = {}
    for each in orders:
        if len(found) < n:
            found |= dict.fromkeys(session.store.column(each.limit(n)))
    return list(found)[:n]


def show(session: Session, key: str, person: str) -> tuple[Suggestion | None, SecondOpinion | None]:
    """Return the suggestions for a question, the project's own first, and record that a person saw them.

    A question without any takes the same work, so that the time of a reply says nothing.
    """
    own, other, status = session.suggestion(key), None, read_status(session)
    if status is not None:
        found, blind = load(session, status.source, [key]).get(key), audit.is_blind(session, key)
        if found is not None and not blind:
            answer = session.type.decode(found[0], session.book.classes())
            other = SecondOpinion(status.name, answer, found[1])
    seen = ([] if own is None else [OWN]) + ([] if other is None or status is None else [status.source])
    if session.store.names([key]):
        record_shown(session, key, clean_person_name(person), seen)
    return own, other


def record_shown(session: Session, key: str, person: str, sources: Sequence[str]) -> None:
    """Record which suggestions a person saw, or that there were none; what nobody was asked yet no longer measures."""
    now = session.store.clock()
    rows = [{"key": key, "person": person, "source": each, "at": now} for each in sources or [NOTHING]]
    if session.store.purpose(key) is None and sources:
        session.store.mark_wanted([key])
    with session.store.write_transaction(durable=False) as tx:
        session.store.upsert(tx, suggestions_shown, ["key", "person", "source"], rows)


def accuracy(session: Session, sample: audit.ProjectAudit) -> NewData | None:
    """Return how often suggestions are right, or their mean error, by audited answers; None before there are any.

    The interval is a confidence sequence for the suggestions by themselves: it takes no share of the models' alpha.
    """
    status = read_status(session)
    found = load(session, status.source, sample.labels) if status is not None else {}
    if not found:
        return None
    scale = number_range(session)
    measured = audit.measure(session, sample, as_predictions(session, found), scale, whole=True)
    error = estimate_mean(measured.errors, measured.expected)
    return audit.describe_error(session, error, measured.interval(ALPHA, 0.5), measured.unit)


# the first ranking


def are_enough(session: Session) -> bool:
    """Return whether suggestions can rank the first questions: one class each, and many of them."""
    status = read_status(session)
    if status is None or not session.type.has_one_class:
        return False
    return 0 < min(ENOUGH, session.store.count(examples.c.here)) <= count(session, status.source)


def is_first_ranking_due(session: Session) -> bool:
    """Return whether suggestions arrived after the first ranking, before anybody answered."""
    rounds = session.store.rounds()
    waiting = bool(rounds) and not rounds[-1][2].get("suggested") and not session.store.last_event()
    return waiting and are_enough(session)


def first_picks(
    session: Session, learner: Learner, training_set: TrainingSet, pool: Any, n: int, seed: int
) -> list[int]:
    """Return places to ask first: each suggested class in turn, by examples that cover it.

    So a rare class is met early. In a search, the class to find comes first, by its chance.
    """
    status, classes = read_status(session), session.book.classes()
    assert status is not None
    found = load(session, status.source)
    groups: dict[int | None, list[int]] = {}
    for place in training_set.candidates().tolist():
        said = found.get(training_set.keys[place])
        groups.setdefault(None if said is None else classes.merged[as_class(said[0])], []).append(place)
    wanted: list[int] = []
    if session.settings.find:
        wanted = groups.pop(classes.number(session.settings.find), [])
        wanted.sort(key=lambda place: -(found[training_set.keys[place]][1] or 0.0))
    strategy, network = queue.first_strategy(session.settings.strategy), learner.untrained(pool)
    most = max(queue.MAX_FIRST_CANDIDATES // max(len(groups), 1), 20)
    orders = [
        queue.pick(strategy, network, pool, n, candidates=np.array(group), most=most, seed=seed)
        for group in groups.values()
    ]
    turns = (place for turn in zip_longest(*orders) for place in turn if place is not None)
    return [*wanted, *turns][:n]
