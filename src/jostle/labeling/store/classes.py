"""Classes of a project: added, renamed and merged in the store, with the keys that choose them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, insert, select, update

from jostle.labeling.answers import Classes, clean_class_name, same_but_for_case
from jostle.labeling.store import Store
from jostle.labeling.store.schema import StoreError, class_names, classes


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
            there = known.find(clean)
            if there is not None:
                if known.names[there] != clean:
                    raise ValueError(same_but_for_case(clean, known.names[there]))
                return there
            number = int(tx.execute(select(func.coalesce(func.max(classes.c.number), -1))).scalar_one()) + 1
            tx.execute(insert(classes).values(number=number, name=clean))
            self.store.upsert(tx, class_names, ["name"], [{"name": clean, "number": number}])
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
            self.store.upsert(tx, class_names, ["name"], [{"name": clean, "number": number}])

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
