"""Edits beside single answers: classes, many answers at once, remarks.

Every answer of many is an event of its own, as if it had been given alone; the table `bulk_answers` says which belong
together. Rows of remarks are only added; the last of a person and kind counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from sqlalchemy import Connection, and_, exists, func, insert, select, update

from jostle.labeling.answers import Answer, Classes, clean_class_name, same_but_for_case
from jostle.labeling.store import EventKind, Store, UnknownKeyError
from jostle.labeling.store.schema import (
    ANSWERED,
    BULK,
    DECIDED,
    StoreError,
    bulk_answers,
    class_names,
    classes,
    events,
    examples,
    leases,
    person_lock,
    remarks,
    retry_conflicts,
    standing,
    take_lock,
)
from jostle.utils.names import unknown

if TYPE_CHECKING:
    from jostle.labeling.session import Session
RemarkKind = Literal["unsure", "note", "flag"]
MAX_NOTE_LENGTH = 2000  # characters
REMARK_COLUMNS: dict[RemarkKind, str] = {"unsure": "unsure", "flag": "flagged", "note": "notes"}  # of exports


class ClassBook:
    """Classes in the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def classes(self) -> Classes:
        """Return the current classes."""
        with self.store.read_transaction() as tx:
            return read_classes(tx)

    def own_keys(self) -> dict[str, str]:
        """Return the keys that were chosen for classes, by name."""
        known, held = self.classes(), self.store.setting("class keys") or {}
        return {known.names[int(number)]: key for number, key in held.items() if int(number) in known.names}

    def choose_keys(self, keys: Mapping[str, str]) -> None:
        """Choose keys of classes by name; a class that had one of these keys loses it."""
        known, held = self.classes(), self.store.setting("class keys") or {}
        new = {str(known.number(name)): key for name, key in keys.items()}
        kept = {number: key for number, key in held.items() if key not in new.values()}
        self.store.save_settings(**{"class keys": {**kept, **new}})

    def add(self, name: str) -> int:
        """Add a class unless it exists; return its number."""
        clean = clean_class_name(name)
        with self.store.write_transaction("classes") as tx:
            known = read_classes(tx)
            if (there := known.find(clean)) is not None:
                if known.names[there] != clean:
                    raise ValueError(same_but_for_case(clean, known.names[there]))
                return there
            number = int(tx.execute(select(func.coalesce(func.max(classes.c.number), -1))).scalar_one()) + 1
            tx.execute(insert(classes).values(number=number, name=clean))
            self.store.upsert(tx, class_names, [{"name": clean, "number": number}])
        return number

    def rename(self, old: str, new: str) -> None:
        """Rename a class; answers sent with the old name still mean this class."""
        clean = clean_class_name(new)
        with self.store.write_transaction("classes") as tx:
            known = read_classes(tx)
            number = known.number(old)
            there = known.find(clean)
            if there is not None and there != number:
                raise ValueError(
                    f"there is a class {known.names[there]!r} already: merge {old!r} into it instead"
                )
            tx.execute(update(classes).where(classes.c.number == number).values(name=clean))
            self.store.upsert(tx, class_names, [{"name": clean, "number": number}])

    def merge(self, old: str, into: str) -> None:
        """Merge a class into another; its answers, later ones included, count for the other."""
        with self.store.write_transaction("classes") as tx:
            known = read_classes(tx)
            gone, stays = known.number(old), known.number(into)
            if gone == stays:
                raise ValueError(f"{old!r} and {into!r} are the same class")
            if len(known.names) == 2:
                raise ValueError(
                    f"{old!r} and {into!r} are the only classes: add another before merging them"
                )
            tx.execute(update(classes).where(classes.c.number == gone).values(merged_into=stays))


def read_classes(tx: Connection) -> Classes:
    """Read the current classes inside a transaction."""
    rows = tx.execute(select(classes).order_by(classes.c.number)).all()
    merged = _follow_merges({row.number: row.merged_into for row in rows})
    names = {row.number: row.name for row in rows if merged[row.number] == row.number}
    numbers = {row.name: merged[row.number] for row in tx.execute(select(class_names))}
    return Classes(names, numbers, merged)


def _follow_merges(into: Mapping[int, int | None]) -> dict[int, int]:
    """Return the class that each number stands for; of classes merged in a circle, the one with the smallest number.

    No project of today has a circle. Two people who merged opposite ways at once could make one before version 0.3.
    """
    merged = {}
    for number in into:
        path = [number]
        while (following := into[path[-1]]) is not None and following not in path:
            if following not in into:
                raise StoreError(f"the class {path[-1]} is merged into {following}, which does not exist")
            path.append(following)
        merged[number] = path[-1] if following is None else min(path[path.index(following) :])
    return merged


@dataclass(frozen=True)
class BulkAnswer:
    """One of many answers."""

    id: str  # an answer sent again with the same id is recorded once
    key: str
    answer: Answer
    seconds: float | None = None


@retry_conflicts
def tell_many(session: Session, bulk: str, answers: Sequence[BulkAnswer], person: str) -> None:
    """Record answers under one id, `bulk`; all are on disk when this returns, or none.

    An answer to an example that somebody else has answered corrects it.

    Raises:
        ValueError: An answer does not fit the project.
        UnknownKeyError: No example has one of the keys.
    """
    classes, store = session.book.classes(), session.store
    values = [session.type.encode(each.answer, classes) for each in answers]
    keys = [each.key for each in answers]
    with store.write_transaction(BULK) as tx:
        take_lock(tx, person_lock(person))
        there = set(tx.execute(select(examples.c.key).where(examples.c.key.in_(keys))).scalars())
        for key in keys:
            if key not in there:
                raise UnknownKeyError(key)
        unasked = and_(examples.c.key.in_(keys), examples.c.purpose.is_(None))
        tx.execute(update(examples).where(unasked).values(purpose="pick"))
        sent = select(events.c.id).where(events.c.id.in_([each.id for each in answers]))
        known = set(tx.execute(sent).scalars())
        told = select(standing.c.key).where(standing.c.key.in_(keys), standing.c.act.in_(ANSWERED))
        others = set(tx.execute(told.where(standing.c.person != person)).scalars())
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
        # strategies may pick again what was only ever answered in this bulk: nobody was asked it, or waits for it
        twice = select(events.c.key).where(events.c.key.in_(keys)).group_by(events.c.key)
        once = twice.having(func.count() == 2)  # the answer and its withdrawal
        alone = and_(examples.c.key.in_(once), examples.c.purpose == "pick", examples.c.wanted)
        tx.execute(update(examples).where(alone).values(purpose=None))
    return keys


@dataclass(frozen=True)
class Remark:
    """Remark of a person on an example."""

    key: str
    """Key of the example."""
    name: str
    """Name of the example."""
    person: str
    """Name of the person."""
    kind: RemarkKind
    """"unsure", "note" or "flag"."""
    text: str
    """Words of a note; empty for the others."""
    at: float
    """When it was made, in seconds since 1970."""


def record_remark(store: Store, key: str, person: str, kind: RemarkKind, text: str | None) -> None:
    """Add a remark; a text of None withdraws the last one of this person and kind."""
    if kind not in get_args(RemarkKind):
        raise unknown("kind of remark", kind, get_args(RemarkKind))
    clean = None if text is None else text.strip()
    if kind == "note" and not clean:
        clean = None  # an emptied note is withdrawn
    if clean is not None and len(clean) > MAX_NOTE_LENGTH:
        raise ValueError(f"a note has at most {MAX_NOTE_LENGTH} characters; got {len(clean)}")
    with store.write_transaction(person_lock(person)) as tx:
        if tx.execute(select(examples.c.key).where(examples.c.key == key)).one_or_none() is None:
            raise UnknownKeyError(key)
        row = {"key": key, "person": person, "kind": kind, "text": clean, "at": store.clock()}
        tx.execute(insert(remarks).values(**row))


def current_remarks(store: Store) -> list[Remark]:
    """Return all remarks that were not withdrawn, the latest first."""
    last = select(func.max(remarks.c.seq)).group_by(remarks.c.key, remarks.c.person, remarks.c.kind)
    found = (
        select(remarks, examples.c.name)
        .join(examples, examples.c.key == remarks.c.key)
        .where(remarks.c.seq.in_(last), remarks.c.text.is_not(None))
        .order_by(remarks.c.seq.desc())
    )
    return [Remark(row.key, row.name, row.person, row.kind, row.text, row.at) for row in store.rows(found)]


def search_remarks(session: Session, words: str = "", kind: RemarkKind | None = None) -> list[Remark]:
    """Return remarks, the latest first, of a kind and with some words in note, name, person or kind.

    Args:
        session: The project.
        words: Part of what is looked for; empty: all.
        kind: "unsure", "note" or "flag"; None: all.
    """
    wanted = words.casefold().strip()
    return [
        each
        for each in current_remarks(session.store)
        if kind in (None, each.kind)
        and wanted in "\n".join([each.text, each.name, each.person, each.kind]).casefold()
    ]


def remarks_by_key(store: Store) -> dict[str, list[Remark]]:
    """Return the remarks on each example that has some, the earliest first."""
    found: dict[str, list[Remark]] = defaultdict(list)
    for each in reversed(current_remarks(store)):
        found[each.key].append(each)
    return dict(found)


def remark_cells(found: list[Remark]) -> dict[str, list[str]]:
    """Return the cells of remarks: who was unsure, who flagged it, and notes with their authors."""
    cells: dict[str, list[str]] = {column: [] for column in REMARK_COLUMNS.values()}
    for each in found:
        words = f"{each.person}: {each.text}" if each.kind == "note" else each.person
        cells[REMARK_COLUMNS[each.kind]].append(words)
    return cells


def add_remarks(store: Store, said: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Add remarks by key, in the cells that `remark_cells` returns; a person's own later words stay.

    Args:
        store: The database.
        said: Keys of examples, and their cells by column.
    """
    known = set(map(tuple, store.rows(select(remarks.c.key, remarks.c.person, remarks.c.kind))))
    for key, cells in said.items():
        for kind, column in REMARK_COLUMNS.items():
            for cell in cells.get(column, ()):
                person, _, text = cell.partition(": ") if kind == "note" else (cell, "", "")
                if (key, person, kind) not in known:
                    record_remark(store, key, person, kind, text)


def claim_unsure(store: Store, person: str, held: list[str], n: int) -> list[str]:
    """Lease up to n examples again to a person who was unsure, when nobody else has answered them; return their keys.

    Args:
        store: The database.
        person: Name of the person.
        held: Keys that the person has open.
        n: Number of examples.
    """
    with store.write_transaction(person_lock(person), durable=False) as tx:
        new = _unsure_keys(tx, person, n, store.clock())
        if new:
            store._lease(tx, person, [*held, *new])
    return new


def _unsure_keys(tx: Connection, person: str, n: int, now: float) -> list[str]:
    mine = (remarks.c.person == person) & (remarks.c.kind == "unsure")
    last = select(func.max(remarks.c.seq)).where(mine).group_by(remarks.c.key)
    there = exists().where(standing.c.key == remarks.c.key)
    answered = there.where(standing.c.act.in_(ANSWERED))
    skipped = there.where(standing.c.person == person, standing.c.act == "skip")
    leased = exists().where(leases.c.key == remarks.c.key, leases.c.until > now)
    found = (
        select(remarks.c.key)
        .join(examples, examples.c.key == remarks.c.key)
        .where(remarks.c.seq.in_(last), remarks.c.text.is_not(None), examples.c.here)
        .where(skipped, ~answered, ~leased)
        .order_by(remarks.c.seq)
        .limit(n)
    )
    return list(tx.execute(found).scalars())
