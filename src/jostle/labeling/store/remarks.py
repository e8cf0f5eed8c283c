"""Remarks of people on examples: unsure, a note, a flag. Rows are only added; the last of a person and kind counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from sqlalchemy import Connection, exists, func, insert, select

from jostle.labeling.store import Store, UnknownKeyError
from jostle.labeling.store.queries import ANSWERED, person_lock
from jostle.labeling.store.schema import examples, leases, remarks, standing
from jostle.utils.names import unknown

if TYPE_CHECKING:
    from jostle.labeling.session import Session

RemarkKind = Literal["unsure", "note", "flag"]
MAX_NOTE_LENGTH = 2000  # characters


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


def record(store: Store, key: str, person: str, kind: RemarkKind, text: str | None) -> None:
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
    cells: dict[str, list[str]] = {"unsure": [], "flagged": [], "notes": []}
    for each in found:
        column = {"unsure": "unsure", "flag": "flagged", "note": "notes"}[each.kind]
        cells[column].append(f"{each.person}: {each.text}" if each.kind == "note" else each.person)
    return cells


def add_remarks(store: Store, said: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Add remarks by key, in the cells that `remark_cells` returns; a person's own later words stay.

    Args:
        store: The database.
        said: Keys of examples, and their cells by column.
    """
    columns: dict[str, RemarkKind] = {"unsure": "unsure", "flagged": "flag", "notes": "note"}
    known = set(map(tuple, store.rows(select(remarks.c.key, remarks.c.person, remarks.c.kind))))
    for key, cells in said.items():
        for column, kind in columns.items():
            for cell in cells.get(column, ()):
                person, _, text = cell.partition(": ") if kind == "note" else (cell, "", "")
                if (key, person, kind) not in known:
                    record(store, key, person, kind, text)


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
    answered = exists().where(standing.c.key == remarks.c.key, standing.c.act.in_(ANSWERED))
    skipped = exists().where(
        standing.c.key == remarks.c.key, standing.c.person == person, standing.c.act == "skip"
    )
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
