"""The classes of a project: added, renamed and merged at any time, while every answer stays as it was given."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select, update

from jostle.labelling.answers import Classes, class_name
from jostle.labelling.schema import class_names, classes
from jostle.labelling.store import Store


class ClassBook:
    """The classes in the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def classes(self) -> Classes:
        """The classes as they are now."""
        with self.store.reading() as tx:
            return read_classes(tx)

    def add(self, name: str) -> int:
        """A class of this name, new or as it is; its number."""
        clean = class_name(name)
        with self.store.writing() as tx:
            known = read_classes(tx)
            there = next((number for number, now in known.names.items() if now == clean), None)
            if there is not None:
                return there
            number = int(tx.execute(select(func.coalesce(func.max(classes.c.number), -1))).scalar_one()) + 1
            tx.execute(insert(classes).values(number=number, name=clean))
            self.store.upsert(tx, class_names, ["name"], [{"name": clean, "number": number}])
        return number

    def rename(self, old: str, new: str) -> None:
        """Another name for a class; answers that still come with the old one mean the same class."""
        clean = class_name(new)
        with self.store.writing() as tx:
            known = read_classes(tx)
            number = known.number(old)
            if clean in known.names.values() and known.names[number] != clean:
                raise ValueError(f"there is a class {clean!r} already: merge {old!r} into it instead")
            tx.execute(update(classes).where(classes.c.number == number).values(name=clean))
            self.store.upsert(tx, class_names, ["name"], [{"name": clean, "number": number}])

    def merge(self, old: str, into: str) -> None:
        """One class becomes part of another; its answers, those to come included, are the other's."""
        with self.store.writing() as tx:
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
    """The classes as a transaction sees them."""
    rows = tx.execute(select(classes).order_by(classes.c.number)).all()
    into = {row.number: row.merged_into for row in rows}

    def end(number: int) -> int:
        while into[number] is not None:
            number = into[number]
        return number

    merged = {number: end(number) for number in into}
    names = {row.number: row.name for row in rows if row.merged_into is None}
    numbers = {row.name: merged[row.number] for row in tx.execute(select(class_names))}
    return Classes(names, numbers, merged)
