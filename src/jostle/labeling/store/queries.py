"""SQL queries of the store, built once: building one takes longer than running it; and locks and retries of PostgreSQL.

How deadlocks are kept out: a transaction takes its named locks first, in one order. A person's own leases, events and
answers are written under the person's lock. Several examples at once are written under one lock of all, or locked in a
way that never waits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import (
    Connection,
    Float,
    Integer,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from jostle.labeling.store.schema import events, examples, leases, queue, settings, standing

P = ParamSpec("P")
T = TypeVar("T")

CONFLICTS = {
    "40P01",
    "40001",
    "23505",
}  # deadlock, serialization failure, a key that somebody has just inserted
MAX_ATTEMPTS = 5
BULK = "examples"  # name of the lock of transactions that write several examples
RETRY_SECONDS = 0.02  # doubled with every attempt

ANSWERED = ("answer", "correction")
DECIDED = ("answer", "correction", "skip")  # events after which a person is not asked again
PACE_EVENTS = 100  # events whose seconds tell how long an answer takes

_person = bindparam("person", type_=Text)
_most = bindparam("most", type_=Integer)
_now = bindparam("now", type_=Float)
_answered = select(func.count()).where(standing.c.key == examples.c.key, standing.c.act.in_(ANSWERED))
_leased = select(func.count()).where(leases.c.key == examples.c.key, leases.c.until > _now)
_mine = exists().where(
    standing.c.key == examples.c.key, standing.c.person == _person, standing.c.act.in_(DECIDED)
)
_held = exists().where(leases.c.key == examples.c.key, leases.c.person == _person, leases.c.until > _now)
_taken = _answered.correlate(examples).scalar_subquery() + _leased.correlate(examples).scalar_subquery()
_free = and_(  # what a person may be asked: here, not decided by them, and fewer people on it than its copies
    examples.c.here, examples.c.copies > _taken, ~_mine.correlate(examples), ~_held.correlate(examples)
)

SETTING = select(settings.c.value).where(settings.c.name == bindparam("name"))

HELD = (
    select(leases.c.key)
    .join(examples)
    .where(leases.c.person == _person, leases.c.until > _now, examples.c.here)
    .order_by(leases.c.place)
)

RANKED = (
    select(queue.c.key, queue.c.purpose)
    .join(examples, queue.c.key == examples.c.key)
    .where(queue.c.round == bindparam("round"), _free)
    .where(or_(examples.c.purpose.is_(None), examples.c.purpose == queue.c.purpose))
    .order_by(queue.c.rank)
    .limit(_most)
    .with_for_update(of=examples, skip_locked=True, key_share=True)
)

SECOND = (  # what somebody was asked already and another is to answer too
    select(examples.c.key, examples.c.purpose)
    .where(examples.c.purpose.in_(("pick", "audit")), examples.c.copies > 1, _free)
    .order_by(examples.c.key)
    .limit(_most)
    .with_for_update(of=examples, skip_locked=True, key_share=True)
)

STILL_FREE = select(examples.c.key).where(examples.c.key.in_(bindparam("keys", expanding=True)), _free)

WANTED = update(examples).where(examples.c.key == bindparam("which")).values(wanted=True)

_ended = bindparam("ended", type_=Integer)
_reached = (
    select(func.coalesce(func.max(queue.c.rank), -1))
    .join(examples, queue.c.key == examples.c.key)
    .where(queue.c.round == _ended, queue.c.purpose == "pick", examples.c.purpose == "pick")
)
UNREACHED = delete(queue).where(queue.c.round == _ended, queue.c.rank > _reached.scalar_subquery())

_seconds = select(events.c.seconds).order_by(events.c.seq.desc()).limit(PACE_EVENTS).subquery()
PACE = select(func.avg(_seconds.c.seconds))

NEWS = (  # answers after an event, by the purpose of their examples
    select(examples.c.purpose, func.count())
    .join(events, events.c.key == examples.c.key)
    .where(events.c.seq > bindparam("since", type_=Integer), events.c.act.in_(ANSWERED))
    .group_by(examples.c.purpose)
)

LOCK_EXAMPLE = (
    select(examples).where(examples.c.key == bindparam("key", type_=Text)).with_for_update(key_share=True)
)
_NAMED_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || :name, 0))")


def person_lock(person: str) -> str:
    """Return the name of the lock under which a person's leases, events and answers are written."""
    return f"person {person}"


def take_lock(tx: Connection, name: str) -> None:
    """Wait for a named lock until the transaction ends; SQLite has one writer at a time anyway."""
    if tx.dialect.name == "postgresql":
        tx.execute(_NAMED_LOCK, {"name": name})


def retry_conflicts(call: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls again, a few times, when PostgreSQL ends its transaction for another's sake."""

    @wraps(call)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> T:
        for pause in (RETRY_SECONDS * 2**again for again in range(MAX_ATTEMPTS - 1)):
            try:
                return call(*args, **kwargs)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in CONFLICTS:
                    raise
                time.sleep(pause * (0.5 + random.random()))
        return call(*args, **kwargs)

    return attempt


def insert_into(dialect: str, table: Any) -> Any:
    """Return an insert that can handle conflicts, in the dialect of the database."""
    return (sqlite if dialect == "sqlite" else postgresql).insert(table)


@lru_cache
def upsert_into(dialect: str, table: Any, columns: Sequence[str]) -> Any:
    """Return an insert that replaces rows with the same primary key."""
    made, keys = insert_into(dialect, table), table.primary_key.columns.keys()
    rest = {name: made.excluded[name] for name in columns if name not in keys}
    return made.on_conflict_do_update(index_elements=keys, set_=rest)
