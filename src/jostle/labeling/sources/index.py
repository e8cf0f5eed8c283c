"""Index of contents and their places: places are read once, and again only when their stamp changes.

An example is a content, not a file: two copies of a picture are one question, a file that moves keeps its answers, and
a file whose content changes is a new question while the old answers stay with the old content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from jostle.labeling.sources import Source, contents
from jostle.labeling.sources.contents import Content, UnreadableError, draw_uniform
from jostle.labeling.store import Store
from jostle.labeling.store.queries import BULK
from jostle.labeling.store.schema import examples, places

ProgressCallback = Callable[[str, int, int], None]  # what is done, how many of, how many
PLACES_PER_TRANSACTION = 200  # others wait no longer than entering these takes


class GoneError(LookupError):
    """An example whose content is no longer in the data."""


@dataclass(frozen=True)
class Place:
    """Result of reading one place."""

    name: str
    stamp: str
    key: str | None
    problem: str | None = None


@dataclass
class Index:
    """Places of a source and their keys, in the store."""

    store: Store
    source: Source
    seed: int
    overlap: float  # share of examples that two people answer
    group: Callable[[ProgressCallback | None], None] = lambda _: None  # called when everything has been read

    def refresh(self, progress: ProgressCallback | None = None) -> None:
        """Bring the store up to date with the source."""
        there = self.source.places()
        known = {row.name: row.stamp for row in self.store.rows(select(places.c.name, places.c.stamp))}
        news = [name for name, stamp in there.items() if known.get(name) != stamp]
        for start in range(0, len(news), PLACES_PER_TRANSACTION):
            part = news[start : start + PLACES_PER_TRANSACTION]
            self.save_places(self.read_place(name, there[name]) for name in part)
            if progress is not None:
                progress("reading", min(start + PLACES_PER_TRANSACTION, len(news)), len(news))
        self.remove_places(name for name in known if name not in there)
        self.group(progress)
        self.store.save_settings(indexed=True)

    def read_random(self, n: int) -> list[str]:
        """Read n places drawn uniformly, and return their keys: the questions before everything has been read once."""
        there = self.source.places()
        known = self.store.column(select(places.c.name))
        order = sorted(there.keys() - set(known), key=lambda name: draw_uniform(self.seed, "start", name))
        keys: dict[str, None] = {}
        for name in order:
            if len(keys) == n:
                break
            found = self.read_place(name, there[name], check=True)
            self.save_places([found])
            if found.key is not None:
                keys[found.key] = None
        return list(keys)

    def read_place(self, name: str, stamp: str, check: bool = False) -> Place:
        """Read one place."""
        if self.source.kind != "image":  # of a row the stamp is the key
            return Place(name, stamp, stamp) if stamp else Place(name, stamp, None, "its text is empty")
        try:
            content = self.source.read(name)
            if check:
                contents.check_picture(content)
        except (KeyError, UnreadableError) as reason:
            return Place(name, stamp, None, str(reason))
        return Place(name, stamp, content.key)

    def save_places(self, found: Iterable[Place]) -> None:
        """Save places, and the examples that are new."""
        rows = list(found)
        with self.store.write_transaction(BULK) as tx:
            before = self._keys_at(tx, [row.name for row in rows])
            self.store.add_examples(
                tx, [(row.key, row.name, self.copies(row.key)) for row in rows if row.key]
            )
            entries = [{"name": r.name, "key": r.key, "stamp": r.stamp, "problem": r.problem} for r in rows]
            self.store.upsert(tx, places, ["name"], entries)
            keys = [row.key for row in rows if row.key]
            back = update(examples).where(examples.c.key.in_(keys), ~examples.c.here)
            tx.execute(back.values(here=True))
            self._update_readable(tx, before.difference(keys))

    def remove_places(self, names: Iterable[str]) -> None:
        """Remove places that no longer exist; their answers stay."""
        gone = list(names)
        with self.store.write_transaction(BULK) as tx:
            for start in range(0, len(gone), PLACES_PER_TRANSACTION):
                part = gone[start : start + PLACES_PER_TRANSACTION]
                before = self._keys_at(tx, part)
                tx.execute(delete(places).where(places.c.name.in_(part)))
                self._update_readable(tx, before)

    def mark_unreadable(self, key: str, problem: str) -> None:
        """Mark an example as unreadable: it is not asked any more."""
        with self.store.write_transaction(BULK) as tx:
            tx.execute(update(places).where(places.c.key == key).values(problem=problem))
            self._update_readable(tx, {key})

    def copies(self, key: str) -> int:
        """Return the number of people who are to answer an example."""
        return 2 if draw_uniform(self.seed, "overlap", key) < self.overlap else 1

    def content(self, key: str, guess: str | None = None) -> Content:
        """Return the content of an example; a file that has changed meanwhile is not used.

        `guess` is a place to try before asking the store.
        """
        if guess is not None and (content := self._content_at(guess, key)) is not None:
            return content
        for name in self.store.column(select(places.c.name).where(places.c.key == key)):
            if (content := self._content_at(name, key)) is not None:
                return content
        raise GoneError(f"the example {key} is not in the data any more")

    def _content_at(self, name: str, key: str) -> Content | None:
        try:
            content = self.source.read(name)
        except (KeyError, OSError, UnreadableError):
            return None
        return content if content.key == key else None

    def _keys_at(self, tx: Connection, names: list[str]) -> set[str]:
        at = select(places.c.key).where(places.c.name.in_(names), places.c.key.is_not(None))
        return set(tx.execute(at).scalars())

    def _update_readable(self, tx: Connection, keys: set[str]) -> None:
        readable = exists().where(places.c.key == bindparam("which"), places.c.problem.is_(None))
        change = update(examples).where(examples.c.key == bindparam("which")).values(here=readable)
        if keys:
            tx.execute(change, [{"which": key} for key in keys])
