"""The tables of a labeling project, and the databases they live in: SQLite for one machine, PostgreSQL for a team.

Events are in `acts`, to which rows are only ever added; `standing` points at the last event of each person on each
example, so that the current answers take one query. Table and column names are those of version 0.2.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event, insert, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError

VERSION = 1  # of the tables; raise it with every change that an older jostle could not read
POOL = {"pool_size": 20, "max_overflow": 40}  # connections
BUSY_SECONDS = 30  # how long a process waits for another that writes

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
class_names = (
    sa.Table(  # every name a class ever had: a page that was open during a renaming sends the old one
        "class_names",
        metadata,
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.ForeignKey("classes.number"), nullable=False),
    )
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
    try:
        with engine.connect().execution_options(writes=True) as tx, tx.begin():
            create_tables(tx, hide_password(url))
    except OperationalError as wrong:
        raise StoreError(f"{hide_password(url)} cannot be opened: {wrong.orig}") from None
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
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.get_backend_name() != "postgresql":
        raise StoreError(
            f"a labeling project is kept in SQLite or PostgreSQL; got {parsed.get_backend_name()}"
        )
    if importlib.util.find_spec("psycopg") is None:
        raise StoreError("PostgreSQL needs a driver: pip install 'jostle[postgres]'")
    engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg"), **POOL, pool_pre_ping=True)
    event.listen(engine, "begin", _begin_postgres)
    return engine


def create_tables(tx: Connection, name: str) -> None:
    """Create the tables if there are none; raise StoreError for a newer version, or a database of something else."""
    if tx.dialect.name == "postgresql":
        tx.execute(text("SELECT pg_advisory_xact_lock(7056783)"))  # two that begin at once make them once
    there = set(inspect(tx).get_table_names())
    if "facts" not in there:
        if there & set(metadata.tables):
            raise StoreError(
                f"{name} holds tables of something else: {', '.join(sorted(there))}; name another database"
            )
        metadata.create_all(tx)
        tx.execute(insert(settings).values(name="schema", value=str(VERSION)))
        return
    stored = select(settings.c.value).where(settings.c.name == "schema")
    found = int(tx.execute(stored).scalar_one_or_none() or 0)
    if found > VERSION:
        raise StoreError(
            f"{name} was written by a newer jostle (its tables have version {found}, this one knows {VERSION}): "
            "upgrade jostle to open it; nothing was changed"
        )
    metadata.create_all(tx)  # tables that a project of 0.2 does not have yet


def hide_password(url: str) -> str:
    """Return a database's address without its password."""
    return make_url(url).render_as_string(hide_password=True) if "://" in url else url


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
