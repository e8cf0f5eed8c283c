"""Many answers at once: recorded in one transaction, and undone in one.

Every answer is an event of its own, as if it had been given alone; the table `bulk_answers` says which belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, insert, select, update

from jostle.labeling.answers import Answer
from jostle.labeling.store import EventKind, UnknownKeyError
from jostle.labeling.store.queries import ANSWERED, BULK, DECIDED, person_lock, retry_conflicts, take_lock
from jostle.labeling.store.schema import bulk_answers, events, examples, standing

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from jostle.labeling.session import Session
    from jostle.labeling.store import Store


@dataclass(frozen=True)
class BulkAnswer:
    """One of many answers."""

    id: str  # an answer sent again with the same id is recorded once
    key: str
    answer: Answer
    seconds: float | None = None


def tell_many(session: Session, bulk: str, answers: Sequence[BulkAnswer], person: str) -> None:
    """Record answers under one id, `bulk`; all are on disk when this returns, or none.

    An answer to an example that somebody else has answered corrects it.

    Raises:
        ValueError: An answer does not fit the project.
        UnknownKeyError: No example has one of the keys.
    """
    classes = session.book.classes()
    values = [session.type.encode(each.answer, classes) for each in answers]
    _record(session.store, bulk, answers, values, person)


@retry_conflicts
def _record(
    store: Store, bulk: str, answers: Sequence[BulkAnswer], values: Sequence[object], person: str
) -> None:
    keys = [each.key for each in answers]
    with store.write_transaction(BULK) as tx:
        take_lock(tx, person_lock(person))
        there = dict(
            tx.execute(select(examples.c.key, examples.c.purpose).where(examples.c.key.in_(keys))).all()
        )
        for key in keys:
            if key not in there:
                raise UnknownKeyError(key)
        unasked = and_(examples.c.key.in_(keys), examples.c.purpose.is_(None))
        tx.execute(update(examples).where(unasked).values(purpose="pick"))
        known = set(
            tx.execute(select(events.c.id).where(events.c.id.in_([each.id for each in answers]))).scalars()
        )
        others = set(
            tx.execute(
                select(standing.c.key).where(
                    standing.c.key.in_(keys),
                    standing.c.person != person,
                    standing.c.act.in_(ANSWERED),
                )
            ).scalars()
        )
        for each, value in zip(answers, values, strict=True):
            if each.id not in known:
                act: EventKind = "correction" if each.key in others else "answer"
                made = store.add_event(tx, each.key, person, act, value, each.seconds, each.id)
                tx.execute(insert(bulk_answers).values(seq=made.seq, bulk=bulk))


@retry_conflicts
def undo_bulk(store: Store, bulk: str, person: str) -> list[str]:
    """Undo the answers of a bulk that still count; return their keys. What was answered before counts again."""
    with store.write_transaction(BULK) as tx:
        take_lock(tx, person_lock(person))
        mine = (
            select(standing.c.key, standing.c.seq)
            .join(bulk_answers, bulk_answers.c.seq == standing.c.seq)
            .where(bulk_answers.c.bulk == bulk, standing.c.person == person, standing.c.act.in_(DECIDED))
            .order_by(standing.c.seq)
        )
        rows = tx.execute(mine).all()
        for row in rows:
            store.withdraw(tx, row.key, person, row.seq)
        keys = [row.key for row in rows]
        _release_unasked(tx, keys)
    return keys


def _release_unasked(tx: Connection, keys: Sequence[str]) -> None:
    """Let strategies pick again what was only ever answered in this bulk: nobody was asked it, or waits for it."""
    often = (
        select(events.c.key)
        .where(events.c.key.in_(keys))
        .group_by(events.c.key)
        .having(func.count() == 2)  # the answer and its withdrawal
    )
    once = and_(examples.c.key.in_(often), examples.c.purpose == "pick", examples.c.wanted)
    tx.execute(update(examples).where(once).values(purpose=None))
