"""Near-copies: frames, crops and re-encoded pictures, texts that differ in digits. A group of them is one question.

One example of a group represents it; the others have the purpose "copy". A copy is never asked, picked or drawn for the
audit, and it does not train: it carries the answer of its representative. So the population of the audit consists of
representatives, and every group counts once. Groups are found from contents alone, before the audit begins, and an
example that was asked already never becomes a copy. One that somebody splits off is asked, trains and does not measure.

Rows of `near_copies` are only added; the last one of an example counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, exists, func, insert, select, update

from jostle.labeling.sources import GoneError, ProgressCallback, contents
from jostle.labeling.sources.contents import UnreadableError
from jostle.labeling.store import Store, UnknownKeyError, held_keys
from jostle.labeling.store.schema import (
    ANSWERED,
    BULK,
    examples,
    near_copies,
    person_lock,
    retry_conflicts,
    standing,
    take_lock,
)
from jostle.utils.files import replacing

if TYPE_CHECKING:
    from jostle.labeling.session import Session

COPY = "copy"  # purpose of an example that another one represents
READERS = 2  # threads that read pictures
PICTURES_PER_SAVE = 2000
JOINED_AT_ONCE = 200  # copies that are stored in one transaction: others wait no longer than that takes
MAX_COMPARED = 8  # candidates whose pixels a picture is compared with
PIXELS_HELD = 1000  # pictures
FILE = "near-copies.npz"
V = TypeVar("V")


@dataclass(frozen=True)
class Groups:
    """Groups of near-copies."""

    representative: Mapping[str, str]  # of each copy
    copies: Mapping[str, Sequence[str]]  # by representative

    def distinct(self, labels: Mapping[str, V]) -> dict[str, V]:
        """Return labels without those of copies whose representative has one: a group trains as one example."""
        return {key: value for key, value in labels.items() if self.representative.get(key) not in labels}

    def carried(self, labels: Mapping[str, V]) -> dict[str, str]:
        """Return the copies that carry an answer, and the representative that they have it from."""
        return {key: of for key, of in self.representative.items() if of in labels and key not in labels}


class CopyGroups:
    """Groups of a project, read again when they have changed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._held: tuple[object, Groups] = (None, Groups({}, {}))

    def get(self) -> Groups:
        """Return the groups as they are now."""
        with self.session.store.read_transaction() as tx:
            mark = tx.execute(select(func.max(near_copies.c.seq))).scalar_one()
            if mark != self._held[0]:
                self._held = mark, _read_groups(tx)
        return self._held[1]

    def find_new(self, progress: ProgressCallback | None = None) -> None:
        """Group the examples that were added since the last call. Rows of a table have no near-copies.

        A project whose audit began before its copies were known stays without groups: its audit is of single examples.
        """
        session, store = self.session, self.session.store
        if session.source.kind == "row" or not session.settings.near_copies:
            _release(store, list(self.get().representative))
            return
        if store.setting("near copies") is None:
            store.save_settings(**{"near copies": not store.count(examples.c.purpose == "audit")})
        if store.setting("near copies"):
            orphans = _orphans(session)
            _release(store, orphans)
            Grouping(session, progress).run(orphans)


def _read_groups(tx: Connection) -> Groups:
    last = select(func.max(near_copies.c.seq)).group_by(near_copies.c.key)
    rows = tx.execute(
        select(near_copies.c.key, near_copies.c.of)
        .join(examples, examples.c.key == near_copies.c.key)
        .where(near_copies.c.seq.in_(last), near_copies.c.of.is_not(None), examples.c.here)
        .order_by(near_copies.c.seq)
    ).all()
    copies: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        copies[row.of].append(row.key)
    return Groups({row.key: row.of for row in rows}, dict(copies))


@retry_conflicts
def split(session: Session, key: str, person: str) -> list[str]:
    """Split a copy from its group, or all copies from a representative; return their keys.

    They are asked like picks, the person who split them first.
    """
    groups, store = session.copies.get(), session.store
    keys = list(groups.copies.get(key, [key] if key in groups.representative else []))
    if not store.names([key]):
        raise UnknownKeyError(key)
    if not keys:
        raise ValueError("this example has no near-copies")
    with store.write_transaction(BULK) as tx:
        take_lock(tx, person_lock(person))
        _part(tx, store, keys, person, purpose="pick", wanted=True)
        held = held_keys(tx, person, store.clock())
        shown = [each for each in held if each == groups.representative.get(keys[0])]
        store._lease(tx, person, list(dict.fromkeys([*shown, *keys, *held])))
    return keys


def _part(tx: Connection, store: Store, keys: Sequence[str], person: str | None, **values: object) -> None:
    """Write that examples are on their own."""
    tx.execute(update(examples).where(examples.c.key.in_(keys), examples.c.purpose == COPY).values(**values))
    rows = [{"key": key, "of": None, "person": person, "at": store.clock()} for key in keys]
    if rows:
        tx.execute(insert(near_copies), rows)


def _orphans(session: Session) -> list[str]:
    """Return the copies whose representative is gone without an answer: they need another one."""
    answered = exists().where(standing.c.key == examples.c.key, standing.c.act.in_(ANSWERED))
    gone = set(session.store.find_keys(~examples.c.here, ~answered))
    return [key for of, keys in session.copies.get().copies.items() if of in gone for key in keys]


@retry_conflicts
def _release(store: Store, keys: Sequence[str]) -> None:
    """Let examples be on their own, as if they had never been grouped."""
    if keys:
        with store.write_transaction(BULK) as tx:
            _part(tx, store, keys, None, purpose=None)


@retry_conflicts
def _join(store: Store, pairs: Iterable[tuple[str, str]]) -> None:
    """Store copies and their representatives, unless somebody was asked them meanwhile."""
    with store.write_transaction(BULK) as tx:
        for key, of in pairs:
            free = and_(examples.c.key == key, examples.c.purpose.is_(None))
            if tx.execute(update(examples).where(free).values(purpose=COPY)).rowcount:
                tx.execute(insert(near_copies).values(key=key, of=of, at=store.clock()))


@dataclass
class Fingerprints:
    """Hashes of examples by key, in the order in which they were computed."""

    keys: list[str] = field(default_factory=list)
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.uint64))
    sizes: list[int] = field(default_factory=list)  # pixels of each picture
    grouped: int = 0  # how many, the first ones, were compared with all others

    def add(self, keys: Sequence[str], hashes: Sequence[contents.Hashes], sizes: Sequence[int]) -> None:
        """Add examples."""
        if keys:
            rows = np.stack(hashes)
            self.hashes = np.concatenate([self.hashes, rows]) if len(self.hashes) else rows
            self.keys += keys
            self.sizes += sizes

    def save(self, folder: Path) -> None:
        """Write a file."""
        with replacing(folder / FILE) as file:
            np.savez(file, **vars(self))

    @classmethod
    def load(cls, folder: Path) -> Fingerprints:
        """Read the file; empty where there is none."""
        if not (folder / FILE).exists():
            return cls()
        with np.load(folder / FILE) as held:
            return cls(held["keys"].tolist(), held["hashes"], held["sizes"].tolist(), int(held["grouped"]))


class Grouping:
    """One search for near-copies among examples that are new.

    Args:
        session: The project.
        progress: Called with messages about the progress; None: nobody is told.
    """

    def __init__(self, session: Session, progress: ProgressCallback | None) -> None:
        self.session, self.progress = session, progress
        self.found = Fingerprints.load(session.map_folder)
        self._decoded = lru_cache(maxsize=PIXELS_HELD)(self._read)

    def run(self, orphans: Sequence[str] = ()) -> None:
        """Hash and compare what is new, and the `orphans`; store the groups."""
        here = select(examples.c.key, examples.c.purpose).where(examples.c.here).order_by(examples.c.key)
        purposes: dict[str, str | None] = dict(self.session.store.rows(here))
        known = set(self.found.keys)
        self.hash([key for key in purposes if key not in known])
        if self.found.grouped == len(self.found.keys) and not orphans:
            return
        joins = list(self.assign(purposes, orphans))
        for start in range(0, len(joins), JOINED_AT_ONCE):
            _join(self.session.store, joins[start : start + JOINED_AT_ONCE])
        self.found.grouped = len(self.found.keys)
        self.found.save(self.session.map_folder)

    def hash(self, keys: Sequence[str]) -> None:
        """Hash examples and save them now and then."""
        if self.session.source.kind == "text":
            wanted = set(keys)
            texts = {each.key: each for each in self.session.source.contents() if each.key in wanted}
            rows = [contents.text_hashes(texts[key].texts) for key in texts]
            self.found.add(list(texts), rows, [0] * len(texts))
            return
        with ThreadPoolExecutor(READERS) as threads:
            for start in range(0, len(keys), PICTURES_PER_SAVE):
                part = keys[start : start + PICTURES_PER_SAVE]
                read = list(threads.map(self._hash_picture, part))
                self.found.add(part, [each for each, _ in read], [size for _, size in read])
                self.found.save(self.session.map_folder)
                if self.progress is not None:
                    self.progress("reading", start + len(part), len(keys))

    def _hash_picture(self, key: str) -> tuple[contents.Hashes, int]:
        found = self._read(key)
        if found is None:
            return contents.NO_HASHES, 0
        pixels, size = found
        return contents.picture_hashes(pixels, size), size[0] * size[1]

    def assign(self, purposes: Mapping[str, str | None], orphans: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield new copies with their representatives.

        Asked examples come first, then large pictures: each joins the most similar representative, or becomes one.
        """
        keys, start = self.found.keys, self.found.grouped
        again, copies = set(orphans), self.session.copies.get().representative
        here = [place for place in range(len(keys)) if keys[place] in purposes]
        new = [place for place in here if place >= start or keys[place] in again]
        new.sort(key=lambda i: (purposes[keys[i]] is None, -self.found.sizes[i], keys[i]))
        fresh = set(new)
        leading = [place for place in here if place not in fresh and keys[place] not in copies]
        similar = self._similar_texts if self.session.source.kind == "text" else self._similar_pictures
        for place, of in similar(leading, new, lambda place: purposes[keys[place]] is None):
            yield keys[place], keys[of]

    def _similar_texts(
        self, leading: Sequence[int], new: Sequence[int], is_free: Callable[[int], bool]
    ) -> Iterator[tuple[int, int]]:
        """Yield the places of new texts that equal an earlier one, and those of the first such."""
        hashes = self.found.hashes[:, 0].tolist()
        known = {hashes[place]: place for place in reversed(leading)}
        for place in new:
            if known.setdefault(hashes[place], place) != place and is_free(place):
                yield place, known[hashes[place]]

    def _similar_pictures(
        self, leading: Sequence[int], new: Sequence[int], is_free: Callable[[int], bool]
    ) -> Iterator[tuple[int, int]]:
        """Yield the places of new pictures, and of the representative that each agrees with best."""
        rows, chosen = self._candidates(leading, new), set(leading)
        for place in new:
            first, last = np.searchsorted(rows[:, 0], (place, place + 1))
            near = [row for row in rows[first:last].tolist() if row[1] in chosen][:MAX_COMPARED]
            scores = ((self._agreement(*pair), other) for _, other, *pair, _ in near)
            score, of = max(scores, default=(0.0, place))
            if score > 0 and is_free(place):
                yield place, of
            else:
                chosen.add(place)

    def _candidates(self, leading: Sequence[int], new: Sequence[int]) -> NDArray[np.int64]:
        """Return rows by new place and distance: place, another one, whole, other, window, distance."""
        hashes, old, fresh = self.found.hashes, np.array(leading, np.int64), np.array(new, np.int64)
        every = np.concatenate([old, fresh])  # the first representatives first, as close pairs are limited
        rows = []
        for wholes, others in ((fresh, every), (old, fresh)):
            pairs = contents.close_pairs(hashes[wholes], hashes[others])
            pairs[:, 0], pairs[:, 1] = wholes[pairs[:, 0]], others[pairs[:, 1]]
            rows += [pairs[:, (0, 1, 0, 1, 2, 3)], pairs[:, (1, 0, 0, 1, 2, 3)]]
        found: NDArray[np.int64] = np.concatenate(rows)
        found = found[np.isin(found[:, 0], fresh) & (found[:, 0] != found[:, 1])]
        return found[np.lexsort((found[:, 5], found[:, 0]))]

    def _agreement(self, whole: int, other: int, window: int) -> float:
        one, two = (self._decoded(self.found.keys[place]) for place in (whole, other))
        return 0.0 if one is None or two is None else contents.agreement(one[0], two[0], window)

    def _read(self, key: str) -> tuple[contents.Pixels, tuple[int, int]] | None:
        """Return the pixels of a picture and its size; None if it is gone or cannot be read."""
        try:
            return contents.picture_pixels(self.session.index.content(key))
        except (GoneError, UnreadableError):
            return None
