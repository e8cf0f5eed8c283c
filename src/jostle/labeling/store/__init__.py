"""Store of what people did, on disk before a call returns.

One set of statements serves SQLite and PostgreSQL. Every write is one transaction; an event is only ever added, and a
later one of the same person on the same example supersedes it.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from jostle.labeling.store import schema
from jostle.labeling.store.schema import (
    BULK,
    DECIDED,
    connect,
    events,
    examples,
    leases,
    person_lock,
    queue,
    retry_conflicts,
    rounds,
    settings,
    standing,
    take_lock,
)

SHORTEST_LEASE, LONGEST_LEASE = 60.0, 3600.0  # seconds
EventKind = Literal["answer", "correction", "skip", "withdrawal"]
# given: made elsewhere; test: what a simulation measures with; copy: near-copy of another example
Purpose = Literal["pick", "audit", "given", "test", "copy"]


class UnknownKeyError(KeyError):
    """A key that no example of this project has."""

    def __str__(self) -> str:
        return f"no example of this project has the key {self.args[0]!r}"


@dataclass(frozen=True)
class Event:
    """One event as it is stored."""

    seq: int
    id: str
    key: str
    person: str
    act: EventKind
    value: Any
    seconds: float | None
    at: float


@dataclass(frozen=True)
class QueueEntry:
    """Entry of a ranking: an example, and its purpose."""

    key: str
    purpose: Purpose


class Store:
    """Database of a project."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.engine = connect(url)
        self.clock = clock
        sqlite = self.engine.dialect.name == "sqlite"
        # SQLite has one writer at a time: threads of one process queue here, fairly, instead of polling its lock
        self._turn = threading.Lock() if sqlite else nullcontext()
        self._snapshot = {} if sqlite else {"isolation_level": "REPEATABLE READ"}  # SQLite has no other

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    @contextmanager
    def write_transaction(self, lock: str | None = None, durable: bool = True) -> Iterator[Connection]:
        """Open a transaction that writes, under a named lock; all of it is on disk when the block ends, or nothing.

        One that is not durable does not wait for the disk: a power cut may undo it, but nothing later survives without
        it.
        """
        how = {"writes": True, "durable": durable}
        with self._turn, self.engine.connect().execution_options(**how) as tx, tx.begin():
            if lock is not None:
                take_lock(tx, lock)
            yield tx

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """Open a transaction with one consistent view."""
        with self.engine.connect().execution_options(**self._snapshot) as tx, tx.begin():
            yield tx

    def rows(self, query: Any, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Return the rows of a query."""
        with self.read_transaction() as tx:
            return tx.execute(query, values).all()

    def column(self, query: Any) -> list[Any]:
        """Return the first column of a query."""
        return [row[0] for row in self.rows(query)]

    def value(self, query: Any) -> Any:
        """Return the first value of a query; None where it has no row."""
        return next(iter(self.column(query)), None)

    def find_keys(self, *conditions: Any) -> list[str]:
        """Return the keys of the examples that meet all conditions, in order."""
        return self.column(select(examples.c.key).where(*conditions).order_by(examples.c.key))

    def count(self, *conditions: Any) -> int:
        """Return the number of examples that meet all conditions."""
        return int(self.value(select(func.count()).select_from(examples).where(*conditions)))

    def upsert(self, tx: Connection, table: Any, rows: Sequence[dict[str, Any]]) -> None:
        """Insert rows, or replace those that have the same primary key."""
        if rows:
            tx.execute(schema.upsert_into(tx.dialect.name, table, tuple(rows[0])), rows)

    # settings

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting of the project."""
        with self.read_transaction() as tx:
            return _setting(tx, name, default)

    def save_settings(self, durable: bool = True, /, **found: Any) -> None:
        """Write settings; a passing status need not be durable."""
        with self.write_transaction(durable=durable) as tx:
            self._save(tx, **found)

    def _save(self, tx: Connection, **found: Any) -> None:
        self.upsert(tx, settings, [{"name": k, "value": json.dumps(v)} for k, v in found.items()])

    # examples

    def add_examples(self, tx: Connection, rows: Iterable[tuple[str, str, int]]) -> None:
        """Add examples by key, name and copies; known ones stay as they are."""
        made = [{"key": key, "name": name, "here": True, "copies": copies} for key, name, copies in rows]
        if made:
            tx.execute(schema.insert_into(tx.dialect.name, examples).on_conflict_do_nothing(), made)

    def names(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the names of examples by key."""
        return dict(self.rows(select(examples.c.key, examples.c.name).where(examples.c.key.in_(keys))))

    def purpose(self, key: str) -> str | None:
        """Return the purpose of an example; None where it was not asked."""
        return self.value(select(examples.c.purpose).where(examples.c.key == key))  # type: ignore[no-any-return]

    @retry_conflicts
    def mark_wanted(self, keys: Sequence[str]) -> None:
        """Mark examples that were shown as picks, or would have been: they no longer measure."""
        with self.write_transaction(BULK) as tx:
            self._mark_wanted(tx, keys)

    def _mark_wanted(self, tx: Connection, keys: Sequence[str]) -> None:
        if keys:
            tx.execute(schema.WANTED, [{"which": key} for key in keys])

    # asking

    @retry_conflicts
    def claim(self, person: str, n: int) -> list[str]:
        """Return the keys of up to n examples that a person is to have open: held ones first, then new ones by rank.

        They are leased: nobody else gets them, beyond an example's copies, until they are answered or the lease ends.
        """
        now = self.clock()
        with self.write_transaction(person_lock(person), durable=False) as tx:
            tx.execute(delete(leases).where(leases.c.person == person, leases.c.until <= now))
            held = held_keys(tx, person, now)[:n]
            new = self._lock_next(tx, person, n - len(held), now) if n > len(held) else {}
            for key, purpose in new.items():
                unasked = and_(examples.c.key == key, examples.c.purpose.is_(None))
                tx.execute(update(examples).where(unasked).values(purpose=purpose))
            keys = [*held, *new]
            self._lease(tx, person, keys)
        return keys

    def _lease(self, tx: Connection, person: str, keys: Sequence[str]) -> None:
        until = self._lease_end(tx)
        rows = [{"key": key, "person": person, "place": i, "until": until} for i, key in enumerate(keys)]
        self.upsert(tx, leases, rows)

    def _lease_end(self, tx: Connection) -> float:
        """Three times the mean time of an answer from now, at least a minute and at most an hour."""
        mean = tx.execute(schema.PACE).scalar_one()
        return self.clock() + (
            LONGEST_LEASE if mean is None else min(max(3 * mean, SHORTEST_LEASE), LONGEST_LEASE)
        )

    @retry_conflicts
    def release(self, person: str) -> None:
        """End a person's leases."""
        with self.write_transaction(person_lock(person), durable=False) as tx:
            tx.execute(delete(leases).where(leases.c.person == person))

    def _lock_next(self, tx: Connection, person: str, n: int, now: float) -> dict[str, str]:
        """Lock the next examples, then check again: only a later statement sees a lease made meanwhile."""
        current = _setting(tx, "round", 0)
        found: dict[str, str] = {}
        for wanted in (schema.SECOND, schema.RANKED) if _setting(tx, "overlap", 0.0) else (schema.RANKED,):
            most = {"person": person, "round": current, "most": n - len(found), "now": now}
            rows = tx.execute(wanted, most) if len(found) < n else ()
            found |= {key: purpose for key, purpose in rows if key not in found}
        locked = {"person": person, "keys": list(found), "now": now}
        free = set(tx.execute(schema.STILL_FREE, locked).scalars())
        return {key: purpose for key, purpose in found.items() if key in free}

    # events

    @retry_conflicts
    def record(
        self,
        key: str,
        person: str,
        act: EventKind,
        value: Any = None,
        *,
        seconds: float | None = None,
        id: str | None = None,
    ) -> Event:
        """Add an event; one whose id exists is returned unchanged, so that sending twice is safe.

        The person is present, so that their other leases are extended.
        """
        with self.write_transaction(person_lock(person)) as tx:
            example = tx.execute(schema.LOCK_EXAMPLE, {"key": key}).one_or_none()
            if example is None:
                raise UnknownKeyError(key)
            if there := tx.execute(select(events).where(events.c.id == id)).one_or_none():
                if (there.key, there.person) != (key, person):
                    raise ValueError(f"the id {id!r} is taken by an answer to another question")
                return event_from_row(there)
            if example.purpose is None:  # answered without having been asked
                tx.execute(update(examples).where(examples.c.key == key).values(purpose="pick"))
            made = self.add_event(tx, key, person, act, value, seconds, id)
            open_ones = and_(leases.c.person == person, leases.c.until > self.clock())
            tx.execute(update(leases).where(open_ones).values(until=self._lease_end(tx)))
            return made

    @retry_conflicts
    def import_answers(
        self, person: str, made: Iterable[tuple[str, Any, str]], audited: Collection[str] = frozenset()
    ) -> int:
        """Add answers made elsewhere, by key, value and id, in one transaction; return the number of new ones.

        Nobody knows how they were chosen: their examples no longer measure, except those in `audited`.
        """
        count, made = 0, list(made)
        with self.write_transaction(BULK) as tx:
            take_lock(tx, person_lock(person))  # people take no other lock, so that nobody waits in a circle
            self._mark_wanted(tx, [key for key, _, _ in made if key not in audited])
            known = set(tx.execute(select(events.c.id).where(events.c.person == person)).scalars())
            for key, value, id in made:
                if id not in known:
                    free = and_(examples.c.key == key, examples.c.purpose.is_(None))
                    tx.execute(update(examples).where(free).values(purpose="given"))
                    self.add_event(tx, key, person, "answer", value, None, id)
                    known.add(id)
                    count += 1
        return count

    @retry_conflicts
    def undo(self, person: str) -> Event | None:
        """Undo a person's last event, and return it: the one before it counts again. None where there is none left."""
        with self.write_transaction(person_lock(person)) as tx:
            mine = select(standing).where(standing.c.person == person, standing.c.act.in_(DECIDED))
            last = tx.execute(mine.order_by(standing.c.seq.desc()).limit(1)).one_or_none()
            if last is None:
                return None
            tx.execute(schema.LOCK_EXAMPLE, {"key": last.key})
            self.withdraw(tx, last.key, person, last.seq)
            self._lease(tx, person, [last.key, *held_keys(tx, person, self.clock())])
            return event_from_row(tx.execute(select(events).where(events.c.seq == last.seq)).one())

    def withdraw(self, tx: Connection, key: str, person: str, seq: int) -> None:
        """Withdraw a person's event on an example; the one that it superseded counts again."""
        superseded = select(events.c.supersedes).where(events.c.seq == seq).scalar_subquery()
        before = tx.execute(select(events).where(events.c.seq == superseded)).one_or_none()
        self.add_event(tx, key, person, "withdrawal", None, None, None)
        if before is not None and before.act in DECIDED:
            again = {"seq": before.seq, "act": before.act, "value": before.value}
            self.upsert(tx, standing, [{"key": key, "person": person, **again}])

    def add_event(
        self,
        tx: Connection,
        key: str,
        person: str,
        act: EventKind,
        value: Any,
        seconds: float | None,
        id: str | None,
    ) -> Event:
        """Add an event inside a transaction."""
        mine = and_(standing.c.key == key, standing.c.person == person)
        before = tx.execute(select(standing.c.seq).where(mine)).scalar_one_or_none()
        row = {
            "key": key,
            "person": person,
            "act": act,
            "value": None if value is None else json.dumps(value),
        }
        rest = {"id": id or uuid.uuid4().hex, "seconds": seconds, "at": self.clock(), "supersedes": before}
        made = tx.execute(insert(events).values(**row, **rest).returning(events)).one()
        self.upsert(tx, standing, [{**row, "seq": made.seq}])
        tx.execute(delete(leases).where(leases.c.key == key, leases.c.person == person))
        return event_from_row(made)

    def last_event(self) -> int:
        """Return the number of the latest event; it grows with every event."""
        return int(self.value(select(func.max(events.c.seq))) or 0)

    def state(self) -> tuple[int, int]:
        """Return a value that changes with every event: numbers of PostgreSQL can be committed out of order."""
        [(last, count)] = self.rows(select(func.max(events.c.seq), func.count()).select_from(events))
        return int(last or 0), int(count)

    def answers_since(self, seq: int) -> tuple[int, int]:
        """Return the numbers of answers and corrections after an event: to learn from, and of the audit."""
        counts: dict[str | None, int] = dict(self.rows(schema.NEWS, {"since": seq}))
        return sum(counts.values()) - counts.get("audit", 0), counts.get("audit", 0)

    # rankings

    @retry_conflicts
    def begin_round(self, ranking: Sequence[QueueEntry], summary: dict[str, Any]) -> int:
        """Begin a round: its ranking replaces the last one at once. Return its number.

        The part of the last ranking that people reached stays: `audit.audit_sample` needs it.
        """
        with self.write_transaction(BULK) as tx:
            number = int(_setting(tx, "round", 0)) + 1
            tx.execute(schema.UNREACHED, {"ended": number - 1})
            tx.execute(insert(rounds).values(round=number, at=self.clock(), summary=json.dumps(summary)))
            self.append_queue(tx, number, 0, ranking)
            self._save(tx, **{"round": number, **({"model": number} if summary.get("model") else {})})
        return number

    def current_round(self) -> int:
        """Return the number of the current round; 0 before the first."""
        return int(self.setting("round", 0))

    def last_model(self) -> int:
        """Return the number of the last round that had a model; 0 before the first."""
        return int(self.setting("model", 0))

    def rounds(self) -> list[tuple[int, float, dict[str, Any]]]:
        """Return number, time and summary of every round."""
        found = self.rows(select(rounds).order_by(rounds.c.round))
        return [(row.round, row.at, json.loads(row.summary)) for row in found]

    @retry_conflicts
    def extend_queue(self, ranking: Sequence[QueueEntry], since: int) -> None:
        """Add to the ranking of round `since`, unless another has begun."""
        with self.write_transaction(BULK) as tx:
            if int(_setting(tx, "round", 0)) != since:
                return
            last = tx.execute(select(func.max(queue.c.rank)).where(queue.c.round == since)).scalar_one()
            self.append_queue(tx, since, 0 if last is None else last + 1, ranking)

    def append_queue(self, tx: Connection, number: int, start: int, ranking: Sequence[QueueEntry]) -> None:
        """Insert entries with the ranks from `start` on."""
        rows = [{**asdict(line), "round": number, "rank": start + i} for i, line in enumerate(ranking)]
        if rows:
            tx.execute(insert(queue), rows)


def held_keys(tx: Connection, person: str, now: float) -> list[str]:
    """Return the keys of the examples that a person has open."""
    return list(tx.execute(schema.HELD, {"person": person, "now": now}).scalars())


def _setting(tx: Connection, name: str, default: Any = None) -> Any:
    value = tx.execute(schema.SETTING, {"name": name}).scalar_one_or_none()
    return default if value is None else json.loads(value)


def event_from_row(row: Any) -> Event:
    """Return a row of `acts` as an event."""
    value = None if row.value is None else json.loads(row.value)
    return Event(row.seq, row.id, row.key, row.person, row.act, value, row.seconds, row.at)
