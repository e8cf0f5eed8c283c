"""Which content lies where: places are read once, and again only when their stamp changes.

An example is a content, not a file: two copies of a picture are one question, a file that moves keeps its answers, and
a file whose content changes is a new question while the old answers stay with the old content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from jostle.labelling import pictures
from jostle.labelling.contents import Content, chance
from jostle.labelling.pictures import UnreadableError
from jostle.labelling.schema import examples, places
from jostle.labelling.source import Source
from jostle.labelling.store import Store

Progress = Callable[[str, int, int], None]  # what is done, how many of, how many
CHUNK = 200  # places that are entered in one transaction: others wait no longer than that takes


class GoneError(LookupError):
    """An example whose content is nowhere any more."""


@dataclass(frozen=True)
class Found:
    """What was found at one place."""

    name: str
    stamp: str
    key: str | None
    problem: str | None = None


@dataclass
class Index:
    """The places of a source and their keys, in the store."""

    store: Store
    source: Source
    seed: int
    overlap: float  # share of examples that two people answer

    def refresh(self, progress: Progress | None = None) -> None:
        """Bring the store up to what the source holds now."""
        there = self.source.places()
        with self.store.reading() as tx:
            known = {row.name: row.stamp for row in tx.execute(select(places.c.name, places.c.stamp))}
        news = [name for name, stamp in there.items() if known.get(name) != stamp]
        for start in range(0, len(news), CHUNK):
            self.enter(self.look(name, there[name]) for name in news[start : start + CHUNK])
            if progress is not None:
                progress("reading", min(start + CHUNK, len(news)), len(news))
        self.forget(name for name in known if name not in there)
        self.store.note(indexed=True)

    def start(self, n: int) -> list[str]:
        """The keys of n places drawn uniformly, read now: what to ask before everything has been read once."""
        there = self.source.places()
        with self.store.reading() as tx:
            known = set(tx.execute(select(places.c.name)).scalars())
        order = sorted(there.keys() - known, key=lambda name: chance(self.seed, "start", name))
        keys: dict[str, None] = {}
        for name in order:
            if len(keys) == n:
                break
            found = self.look(name, there[name], check=True)
            self.enter([found])
            if found.key is not None:
                keys[found.key] = None
        return list(keys)

    def look(self, name: str, stamp: str, check: bool = False) -> Found:
        """Read one place."""
        if self.source.kind != "image":
            return Found(name, stamp, stamp)  # of a row the stamp is the key
        try:
            content = self.source.read(name)
            if check:
                pictures.check(content)
        except (KeyError, UnreadableError) as reason:
            return Found(name, stamp, None, str(reason))
        return Found(name, stamp, content.key)

    def enter(self, found: Iterable[Found]) -> None:
        """Write places down, and the examples that are new."""
        rows = list(found)
        with self.store.writing() as tx:
            before = self._keys_at(tx, [row.name for row in rows])
            self.store.enter_examples(
                tx, [(row.key, row.name, self.copies(row.key)) for row in rows if row.key]
            )
            entries = [{"name": r.name, "key": r.key, "stamp": r.stamp, "problem": r.problem} for r in rows]
            self.store.upsert(tx, places, ["name"], entries)
            keys = [row.key for row in rows if row.key]
            back = update(examples).where(examples.c.key.in_(keys), ~examples.c.here)
            tx.execute(back.values(here=True))
            self._mark(tx, before.difference(keys))

    def forget(self, names: Iterable[str]) -> None:
        """Places that are no more; their answers stay."""
        gone = list(names)
        with self.store.writing() as tx:
            for start in range(0, len(gone), CHUNK):
                part = gone[start : start + CHUNK]
                before = self._keys_at(tx, part)
                tx.execute(delete(places).where(places.c.name.in_(part)))
                self._mark(tx, before)

    def spoil(self, key: str, problem: str) -> None:
        """An example turned out to be unreadable: it is not asked any more."""
        with self.store.writing() as tx:
            tx.execute(update(places).where(places.c.key == key).values(problem=problem))
            self._mark(tx, {key})

    def copies(self, key: str) -> int:
        """How many people are to answer an example."""
        return 2 if chance(self.seed, "overlap", key) < self.overlap else 1

    def content(self, key: str, guess: str | None = None) -> Content:
        """What an example shows; a file that was changed meanwhile is not shown for it.

        The store is not asked where it lies if it lies where one may `guess`.
        """
        if guess is not None and (content := self._content_at(guess, key)) is not None:
            return content
        with self.store.reading() as tx:
            names = list(tx.execute(select(places.c.name).where(places.c.key == key)).scalars())
        for name in names:
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

    def _mark(self, tx: Connection, keys: set[str]) -> None:
        readable = exists().where(places.c.key == bindparam("which"), places.c.problem.is_(None))
        change = update(examples).where(examples.c.key == bindparam("which")).values(here=readable)
        if keys:
            tx.execute(change, [{"which": key} for key in keys])
