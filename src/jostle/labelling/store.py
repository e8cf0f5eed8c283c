"""What people did, on disk before anybody is told so.

One set of statements serves SQLite and PostgreSQL. Every write is one transaction; an act is only ever added, and a
later one of the same person on the same example supersedes it.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import Connection, and_, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from jostle.labelling.schema import acts, connected, examples, facts, leases, queue, rounds, standing
from jostle.labelling.statements import (
    DECIDED,
    FACT,
    HELD,
    PACE,
    RANKED,
    SECOND,
    STILL_FREE,
    UNREACHED,
    WANTED,
)

Act = Literal["answer", "correction", "skip", "withdrawal"]
# given: made elsewhere; test: what a simulation measures with
Purpose = Literal["pick", "audit", "given", "test"]

SHORTEST_LEASE, LONGEST_LEASE = 60.0, 3600.0  # seconds


class UnknownKeyError(KeyError):
    """A key that no example of this project has."""

    def __str__(self) -> str:
        return f"no example of this project has the key {self.args[0]!r}"


@dataclass(frozen=True)
class Done:
    """One act as it stands on disk."""

    seq: int
    id: str
    key: str
    person: str
    act: Act
    value: Any
    seconds: float | None
    at: float


@dataclass(frozen=True)
class Ranked:
    """One line of a ranking: which example to ask, and what for."""

    key: str
    purpose: Purpose


class Store:
    """A project's database."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.engine = connected(url)
        self.clock = clock
        # SQLite has one writer at a time: threads of one process queue here, fairly, instead of polling its lock
        self._turn = threading.Lock() if self.engine.dialect.name == "sqlite" else nullcontext()

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @contextmanager
    def writing(self, lasting: bool = True) -> Iterator[Connection]:
        """A transaction that writes; what it did is on disk when the block ends, or none of it is.

        One that is not lasting does not wait for the disk: a power cut may take it back, but nothing that came after it
        stays without it.
        """
        how = {"writes": True, "lasting": lasting}
        with self._turn, self.engine.connect().execution_options(**how) as tx, tx.begin():
            yield tx

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view."""
        with self.engine.connect() as tx, tx.begin():
            yield tx

    def upsert(self, tx: Connection, table: Any, keys: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
        """Insert rows, or replace those that have the same keys."""
        rows = list(rows)
        if rows:
            tx.execute(_upsert(tx.dialect.name, table, tuple(keys), tuple(rows[0])), rows)

    # facts

    def fact(self, name: str, default: Any = None) -> Any:
        """A setting of the project."""
        with self.reading() as tx:
            return _fact(tx, name, default)

    def note(self, **found: Any) -> None:
        """Write settings down."""
        with self.writing() as tx:
            self._note(tx, **found)

    def mention(self, **found: Any) -> None:
        """Write down what is true for a moment, without waiting for the disk: answers come first."""
        with self.writing(lasting=False) as tx:
            self._note(tx, **found)

    def _note(self, tx: Connection, **found: Any) -> None:
        self.upsert(tx, facts, ["name"], [{"name": k, "value": json.dumps(v)} for k, v in found.items()])

    # examples

    def enter_examples(self, tx: Connection, rows: Iterable[tuple[str, str, int]]) -> None:
        """Examples by key, name and copies; those that are known stay as they are."""
        made = [{"key": key, "name": name, "here": True, "copies": copies} for key, name, copies in rows]
        if made:
            tx.execute(_insert(tx.dialect.name, examples).on_conflict_do_nothing(), made)

    def names(self, keys: Sequence[str]) -> dict[str, str]:
        """The names of examples by key."""
        with self.reading() as tx:
            found = select(examples.c.key, examples.c.name).where(examples.c.key.in_(keys))
            return {row.key: row.name for row in tx.execute(found)}

    def purpose(self, key: str) -> str | None:
        """What an example is asked for; None where it was not."""
        with self.reading() as tx:
            return tx.execute(select(examples.c.purpose).where(examples.c.key == key)).scalar_one_or_none()

    def mark_wanted(self, keys: Sequence[str]) -> None:
        """Examples that were shown as picks, or would have been: they measure no more."""
        with self.writing() as tx:
            self._want(tx, keys)

    def _want(self, tx: Connection, keys: Sequence[str]) -> None:
        if keys:
            tx.execute(WANTED, [{"which": key} for key in keys])

    # asking

    def claim(self, person: str, n: int) -> list[str]:
        """The keys of up to n examples that a person is to have open: those already held, then new ones by rank.

        They are leased: no one else gets them, beyond an example's copies, until they are answered or the lease ends.
        """
        now = self.clock()
        with self.writing(lasting=False) as tx:
            tx.execute(delete(leases).where(leases.c.until <= now))
            held = _held(tx, person)[:n]
            new = self._locked(tx, person, n - len(held)) if n > len(held) else []
            for key, purpose in new:
                tx.execute(
                    update(examples)
                    .where(examples.c.key == key, examples.c.purpose.is_(None))
                    .values(purpose=purpose)
                )
            keys = [*held, *(key for key, _ in new)]
            self._lease(tx, person, keys)
        return keys

    def _lease(self, tx: Connection, person: str, keys: Sequence[str]) -> None:
        until = self._lease_end(tx)
        rows = [{"key": key, "person": person, "place": i, "until": until} for i, key in enumerate(keys)]
        self.upsert(tx, leases, ["key", "person"], rows)

    def _lease_end(self, tx: Connection) -> float:
        return self.clock() + lease_seconds(tx.execute(PACE).scalar_one())

    def release(self, person: str) -> None:
        """End a person's leases: the page was closed."""
        with self.writing(lasting=False) as tx:
            tx.execute(delete(leases).where(leases.c.person == person))

    def _locked(self, tx: Connection, person: str, n: int) -> list[tuple[str, str]]:
        """Lock what comes next, then look again: a lease made meanwhile is seen only by a statement begun after it."""
        current = _fact(tx, "round", 0)
        found: dict[str, str] = {}
        for wanted in (SECOND, RANKED) if _fact(tx, "overlap", 0.0) else (RANKED,):
            rows = tx.execute(wanted, {"person": person, "round": current, "most": n - len(found)})
            found |= {key: purpose for key, purpose in rows if key not in found}
            if len(found) == n:
                break
        free = set(tx.execute(STILL_FREE, {"person": person, "keys": list(found)}).scalars())
        return [(key, purpose) for key, purpose in found.items() if key in free]

    # acting

    def record(
        self,
        key: str,
        person: str,
        act: Act,
        value: Any = None,
        *,
        seconds: float | None = None,
        id: str | None = None,
    ) -> Done:
        """Add an act; one that is already there by its id is returned as it is, so that sending twice is safe.

        Who acts is there: what else they have open stays theirs for another lease.
        """
        with self.writing() as tx:
            example = tx.execute(
                select(examples).where(examples.c.key == key).with_for_update()
            ).one_or_none()
            if example is None:
                raise UnknownKeyError(key)
            if id is not None and (there := _by_id(tx, id)) is not None:
                if (there.key, there.person) != (key, person):
                    raise ValueError(f"the id {id!r} is taken by an answer to another question")
                return there
            if example.purpose is None:  # answered without having been asked
                tx.execute(update(examples).where(examples.c.key == key).values(purpose="pick"))
            made = self._add(tx, key, person, act, value, seconds, id)
            tx.execute(update(leases).where(leases.c.person == person).values(until=self._lease_end(tx)))
            return made

    def give(
        self, person: str, made: Iterable[tuple[str, Any, str]], audited: Collection[str] = frozenset()
    ) -> int:
        """Answers made elsewhere, by key, value and id, in one transaction; how many were not there yet.

        Nobody knows how they were chosen: their examples measure no more, but for those that the file says were
        `audited`.
        """
        count, made = 0, list(made)
        with self.writing() as tx:
            self._want(tx, [key for key, _, _ in made if key not in audited])
            known = set(tx.execute(select(acts.c.id).where(acts.c.person == person)).scalars())
            for key, value, id in made:
                if id not in known:
                    free = and_(examples.c.key == key, examples.c.purpose.is_(None))
                    tx.execute(update(examples).where(free).values(purpose="given"))
                    self._add(tx, key, person, "answer", value, None, id)
                    known.add(id)
                    count += 1
        return count

    def undo(self, person: str) -> Done | None:
        """Take back a person's last act: what stood before it stands again. None where there is none left."""
        with self.writing() as tx:
            mine = select(standing).where(standing.c.person == person, standing.c.act.in_(DECIDED))
            last = tx.execute(mine.order_by(standing.c.seq.desc()).limit(1)).one_or_none()
            if last is None:
                return None
            tx.execute(select(examples.c.key).where(examples.c.key == last.key).with_for_update())
            superseded = select(acts.c.supersedes).where(acts.c.seq == last.seq).scalar_subquery()
            before = tx.execute(select(acts).where(acts.c.seq == superseded)).one_or_none()
            taken = self._add(tx, last.key, person, "withdrawal", None, None, None)
            if before is not None and before.act in DECIDED:
                again = {"seq": before.seq, "act": before.act, "value": before.value}
                self.upsert(tx, standing, ["key", "person"], [{"key": last.key, "person": person, **again}])
            self._lease(tx, person, [last.key, *_held(tx, person)])
            return taken

    def _add(
        self,
        tx: Connection,
        key: str,
        person: str,
        act: Act,
        value: Any,
        seconds: float | None,
        id: str | None,
    ) -> Done:
        mine = and_(standing.c.key == key, standing.c.person == person)
        before = tx.execute(select(standing.c.seq).where(mine)).scalar_one_or_none()
        made = Done(0, id or uuid.uuid4().hex, key, person, act, value, seconds, self.clock())
        row = {**asdict(made), "value": None if value is None else json.dumps(value), "supersedes": before}
        del row["seq"]
        row["seq"] = tx.execute(insert(acts).values(**row).returning(acts.c.seq)).scalar_one()
        kept = {name: row[name] for name in ("key", "person", "seq", "act", "value")}
        self.upsert(tx, standing, ["key", "person"], [kept])
        tx.execute(delete(leases).where(leases.c.key == key, leases.c.person == person))
        return replace(made, seq=row["seq"])

    def last_act(self) -> int:
        """The number of the latest act; it grows with everything that anybody does."""
        with self.reading() as tx:
            return int(tx.execute(select(func.coalesce(func.max(acts.c.seq), 0))).scalar_one())

    def answers_since(self, seq: int) -> int:
        """How many answers and corrections came after an act."""
        with self.reading() as tx:
            news = select(func.count()).where(acts.c.seq > seq, acts.c.act.in_(("answer", "correction")))
            return int(tx.execute(news).scalar_one())

    # rankings

    def install(self, ranking: Sequence[Ranked], summary: dict[str, Any]) -> int:
        """Begin a round: its ranking takes the place of the last one whole, and its number is returned.

        Of the last one stays what people came to: `measures.audited` wants to know what was passed over there.
        """
        with self.writing() as tx:
            number = int(_fact(tx, "round", 0)) + 1
            tx.execute(UNREACHED, {"ended": number - 1})
            tx.execute(insert(rounds).values(round=number, at=self.clock(), summary=json.dumps(summary)))
            self._rank(tx, number, 0, ranking)
            self._note(tx, **{"round": number, **({"model": number} if summary.get("model") else {})})
        return number

    def current_round(self) -> int:
        """The number of the round whose ranking is asked; 0 before the first."""
        return int(self.fact("round", 0))

    def last_model(self) -> int:
        """The number of the last round that had a model; 0 before the first."""
        return int(self.fact("model", 0))

    def rounds(self) -> list[tuple[int, float, dict[str, Any]]]:
        """Number, time and summary of every round."""
        with self.reading() as tx:
            rows = tx.execute(select(rounds).order_by(rounds.c.round)).all()
        return [(row.round, row.at, json.loads(row.summary)) for row in rows]

    def extend(self, ranking: Sequence[Ranked], since: int) -> None:
        """Add to the ranking of round `since`, unless another has begun."""
        with self.writing() as tx:
            if int(_fact(tx, "round", 0)) != since:
                return
            last = tx.execute(select(func.max(queue.c.rank)).where(queue.c.round == since)).scalar_one()
            self._rank(tx, since, 0 if last is None else last + 1, ranking)

    def _rank(self, tx: Connection, number: int, start: int, ranking: Sequence[Ranked]) -> None:
        rows = [
            {"round": number, "rank": start + i, "key": line.key, "purpose": line.purpose}
            for i, line in enumerate(ranking)
        ]
        if rows:
            tx.execute(insert(queue), rows)


def _insert(dialect: str, table: Any) -> Any:
    """An insert that may be told what to do on a conflict: both databases can, each in words of its own."""
    return (sqlite if dialect == "sqlite" else postgresql).insert(table)


@lru_cache
def _upsert(dialect: str, table: Any, keys: Sequence[str], columns: Sequence[str]) -> Any:
    made = _insert(dialect, table)
    rest = {name: made.excluded[name] for name in columns if name not in keys}
    if not rest:
        return made.on_conflict_do_nothing()
    return made.on_conflict_do_update(index_elements=list(keys), set_=rest)


def lease_seconds(mean: float | None) -> float:
    """Three times what an answer takes, at least a minute and at most an hour; an hour where that is not known."""
    return LONGEST_LEASE if mean is None else min(max(3 * mean, SHORTEST_LEASE), LONGEST_LEASE)


def _held(tx: Connection, person: str) -> list[str]:
    return list(tx.execute(HELD, {"person": person}).scalars())


def _fact(tx: Connection, name: str, default: Any = None) -> Any:
    value = tx.execute(FACT, {"name": name}).scalar_one_or_none()
    return default if value is None else json.loads(value)


def _by_id(tx: Connection, id: str) -> Done | None:
    row = tx.execute(select(acts).where(acts.c.id == id)).one_or_none()
    return None if row is None else done(row)


def done(row: Any) -> Done:
    """A row of `acts` as a record."""
    value = None if row.value is None else json.loads(row.value)
    return Done(row.seq, row.id, row.key, row.person, row.act, value, row.seconds, row.at)
