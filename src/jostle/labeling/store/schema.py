"""The database of a labeling project: tables, connections, locks, and the queries that run often.

It is SQLite for one machine, PostgreSQL for a team. Events are in `acts`, to which rows are only ever added; `standing`
points at the last event of each person on each example, so that the current answers take one query. Table and column
names are those of version 0.2. Frequent queries are built once: building one takes longer than running it.

How deadlocks are kept out: a transaction takes its named locks first, in one order. A person's own leases, events and
answers are written under the person's lock. Several examples at once are written under one lock of all, or locked in a
way that never waits.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, bindparam, exists, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

VERSION = 1  # of the tables; raise it with every change that an older jostle could not read
POOL = {"pool_size": 20, "max_overflow": 40}  # connections
BUSY_SECONDS = 30  # how long a process waits for another that writes
P = ParamSpec("P")
T = TypeVar("T")
# deadlock, serialization failure, a key that somebody has just inserted
CONFLICTS = {"40P01", "40001", "23505"}
MAX_ATTEMPTS = 5
BULK = "examples"  # name of the lock of transactions that write several examples
RETRY_SECONDS = 0.02  # doubled with every attempt
ANSWERED = ("answer", "correction")
DECIDED = ("answer", "correction", "skip")  # events after which a person is not asked again
PACE_EVENTS = 100  # events whose seconds tell how long an answer takes

metadata = sa.MetaData()

settings = sa.Table(
    "facts",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),  # JSON
)
classes = sa.Table(
    "classes",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("merged_into", sa.ForeignKey("classes.number")),
)
# every name a class ever had: a page that was open during a renaming sends the old one
class_names = sa.Table(
    "class_names",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("number", sa.ForeignKey("classes.number"), nullable=False),
)
examples = sa.Table(
    "examples",
    metadata,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("here", sa.Boolean, nullable=False),  # whether a readable place with this content exists
    sa.Column("copies", sa.Integer, nullable=False),  # how many people are to answer it
    # pick, audit, given or copy; set once, when it is first asked, answered, imported or grouped
    sa.Column("purpose", sa.String(8)),
    # shown as a pick, or labeled elsewhere: does not measure, though it be audited
    sa.Column("wanted", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("examples_by_purpose", "purpose", "copies"),
)
places = sa.Table(
    "places",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("key", sa.ForeignKey("examples.key")),  # NULL: it cannot be read
    sa.Column("stamp", sa.Text, nullable=False),  # changes when the content may have
    sa.Column("problem", sa.Text),
    sa.Index("places_by_key", "key"),
)
queue = sa.Table(
    "queue",
    metadata,
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("rank", sa.Integer, primary_key=True),
    sa.Column("key", sa.ForeignKey("examples.key"), nullable=False),
    sa.Column("purpose", sa.String(8), nullable=False),
    sa.Index("queue_by_key", "key"),
)
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("key", sa.ForeignKey("examples.key"), primary_key=True),
    sa.Column("person", sa.Text, primary_key=True),
    sa.Column("place", sa.Integer, nullable=False),  # in the person's hand
    sa.Column("until", sa.Float, nullable=False),
    sa.Index("leases_by_person", "person"),
)
events = sa.Table(
    "acts",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),  # made by the client: sent again, it is one act
    sa.Column("key", sa.ForeignKey("examples.key"), nullable=False),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("act", sa.String(10), nullable=False),  # answer, correction, skip or withdrawal
    sa.Column("value", sa.Text),  # JSON
    sa.Column("seconds", sa.Float),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("supersedes", sa.ForeignKey("acts.seq")),
)
standing = sa.Table(
    "standing",
    metadata,
    sa.Column("key", sa.ForeignKey("examples.key"), primary_key=True),
    sa.Column("person", sa.Text, primary_key=True),
    sa.Column("seq", sa.ForeignKey("acts.seq"), nullable=False),
    sa.Column("act", sa.String(10), nullable=False),
    sa.Column("value", sa.Text),
    sa.Index("standing_by_person", "person", "seq"),
)
lookups = sa.Table(  # texts that somebody searches by meaning, and their embeddings
    "lookups",
    metadata,
    sa.Column("text", sa.Text, primary_key=True),
    sa.Column("row", sa.Text),  # JSON; NULL until the background process has computed it
    sa.Column("at", sa.Float, nullable=False),
)
bulk_answers = sa.Table(  # which events were made together
    "bulk_answers",
    metadata,
    sa.Column("seq", sa.ForeignKey("acts.seq"), primary_key=True),
    sa.Column("bulk", sa.Text, nullable=False),
    sa.Index("bulk_answers_by_bulk", "bulk"),
)
near_copies = sa.Table(  # rows are only added, the last of a key counts
    "near_copies",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("key", sa.ForeignKey("examples.key"), nullable=False),
    sa.Column("of", sa.ForeignKey("examples.key")),  # the example that represents it; NULL: it is on its own
    sa.Column("person", sa.Text),  # who split it; NULL: nobody
    sa.Column("at", sa.Float, nullable=False),
    sa.Index("near_copies_by_key", "key"),
)
suggestions = sa.Table(  # of any model, by example; an answer of NULL: it said nothing that counts
    "suggestions",
    metadata,
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("key", sa.ForeignKey("examples.key"), primary_key=True),
    sa.Column("answer", sa.Text),  # JSON, as answers are stored
    sa.Column("chance", sa.Float),
    sa.Column("at", sa.Float, nullable=False),
)
suggestions_shown = sa.Table(  # who saw a suggestion before answering
    "suggestions_shown",
    metadata,
    sa.Column("key", sa.ForeignKey("examples.key"), primary_key=True),
    sa.Column("person", sa.Text, primary_key=True),
    sa.Column("source", sa.String(32), primary_key=True),  # "model": that of the project; "": none was shown
    sa.Column("at", sa.Float, nullable=False),
)
rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),  # JSON
)

looks = sa.Table(  # models of others that were scored on the audit: each one spends its share of alpha
    "looks",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column(
        "digest", sa.String(32), nullable=False, unique=True
    ),  # of the predictions: scored again, it is one look
    sa.Column("alpha", sa.Float, nullable=False),
)
remarks = sa.Table(  # of people on examples; rows are only added, the last of a person and kind counts
    "remarks",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("key", sa.ForeignKey("examples.key"), nullable=False),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("kind", sa.String(8), nullable=False),  # unsure, note or flag
    sa.Column("text", sa.Text),  # NULL: withdrawn
    sa.Column("at", sa.Float, nullable=False),
    sa.Index("remarks_by_key", "key", "person", "kind"),
)
people = sa.Table(  # who has a token of their own
    "people",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.String(8), nullable=False),  # label, review or manage
    sa.Column("digest", sa.String(64), nullable=False, unique=True),  # of the token
    sa.Column("at", sa.Float, nullable=False),
)


class StoreError(ValueError):
    """A database that cannot be used; the message says which and why."""


def connect(url: str) -> Engine:
    """Return an engine on a database with our tables in it; raise StoreError for one of a newer version."""
    engine = make_engine(url)
    name = make_url(url).render_as_string(hide_password=True) if "://" in url else url
    try:
        with engine.connect().execution_options(writes=True) as tx, tx.begin():
            create_tables(tx, name)
    except OperationalError as wrong:
        raise StoreError(f"{name} cannot be opened: {wrong.orig}") from None
    return engine


def make_engine(url: str) -> Engine:
    """Return an engine for a URL, or for the path of a SQLite file."""
    if "://" not in url:
        Path(url).parent.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{url}"
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(f"{url!r} is not the address of a database") from None
    if parsed.get_backend_name() == "sqlite":
        waiting = {"timeout": BUSY_SECONDS, "check_same_thread": False}
        engine = sa.create_engine(parsed, **POOL, connect_args=waiting)
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.get_backend_name() != "postgresql":
        raise StoreError(
            f"a labeling project is kept in SQLite or PostgreSQL; got {parsed.get_backend_name()}"
        )
    if importlib.util.find_spec("psycopg") is None:
        raise StoreError("PostgreSQL needs a driver: pip install 'jostle[postgres]'")
    engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg"), **POOL, pool_pre_ping=True)
    sa.event.listen(engine, "begin", _begin_postgres)
    return engine


def create_tables(tx: Connection, name: str) -> None:
    """Create the tables if there are none; raise StoreError for a newer version, or a database of something else."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(7056783)"))  # two that begin at once make them once
    there = set(sa.inspect(tx).get_table_names())
    if "facts" not in there:
        if there & set(metadata.tables):
            raise StoreError(
                f"{name} holds tables of something else: {', '.join(sorted(there))}; name another database"
            )
        metadata.create_all(tx)
        tx.execute(sa.insert(settings).values(name="schema", value=str(VERSION)))
        return
    stored = select(settings.c.value).where(settings.c.name == "schema")
    found = int(tx.execute(stored).scalar_one_or_none() or 0)
    if found > VERSION:
        raise StoreError(
            f"{name} was written by a newer jostle (its tables have version {found}, this one knows {VERSION}): "
            "upgrade jostle to open it; nothing was changed"
        )
    metadata.create_all(tx)  # tables that a project of 0.2 does not have yet


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for setting in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",  # an answer outlives a power cut too
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    # a transaction that reads first and then writes fails at once if another wrote in between, whatever the timeout
    options = connection.get_execution_options()
    if not options.get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('durable', True) else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_postgres(connection: Connection) -> None:
    if not connection.get_execution_options().get("durable", True):
        connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")


_person = bindparam("person", type_=sa.Text)
_most = bindparam("most", type_=sa.Integer)
_now = bindparam("now", type_=sa.Float)
_answered = select(func.count()).where(standing.c.key == examples.c.key, standing.c.act.in_(ANSWERED))
_leased = select(func.count()).where(leases.c.key == examples.c.key, leases.c.until > _now)
_mine = exists().where(
    standing.c.key == examples.c.key, standing.c.person == _person, standing.c.act.in_(DECIDED)
)
_held = exists().where(leases.c.key == examples.c.key, leases.c.person == _person, leases.c.until > _now)
_taken = _answered.correlate(examples).scalar_subquery() + _leased.correlate(examples).scalar_subquery()
# what a person may be asked: here, not decided by them, and fewer people on it than its copies
_free = sa.and_(
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
    .where(sa.or_(examples.c.purpose.is_(None), examples.c.purpose == queue.c.purpose))
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
WANTED = sa.update(examples).where(examples.c.key == bindparam("which")).values(wanted=True)
_ended = bindparam("ended", type_=sa.Integer)
_reached = (
    select(func.coalesce(func.max(queue.c.rank), -1))
    .join(examples, queue.c.key == examples.c.key)
    .where(queue.c.round == _ended, queue.c.purpose == "pick", examples.c.purpose == "pick")
)
UNREACHED = sa.delete(queue).where(queue.c.round == _ended, queue.c.rank > _reached.scalar_subquery())
_seconds = select(events.c.seconds).order_by(events.c.seq.desc()).limit(PACE_EVENTS).subquery()
PACE = select(func.avg(_seconds.c.seconds))
NEWS = (  # answers after an event, by the purpose of their examples
    select(examples.c.purpose, func.count())
    .join(events, events.c.key == examples.c.key)
    .where(events.c.seq > bindparam("since", type_=sa.Integer), events.c.act.in_(ANSWERED))
    .group_by(examples.c.purpose)
)
LOCK_EXAMPLE = (
    select(examples).where(examples.c.key == bindparam("key", type_=sa.Text)).with_for_update(key_share=True)
)


def person_lock(person: str) -> str:
    """Return the name of the lock under which a person's leases, events and answers are written."""
    return f"person {person}"


def take_lock(tx: Connection, name: str) -> None:
    """Wait for a named lock until the transaction ends; SQLite has one writer at a time anyway."""
    if tx.dialect.name == "postgresql":
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || :name, 0))"
        tx.execute(sa.text(lock), {"name": name})


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
