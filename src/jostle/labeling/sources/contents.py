"""Examples as people see them, and the index of their places.

A `Question` names an example by its content, a `Content` is a picture, a text or a row. An example is a content, not a
file: two copies of a picture are one question, a file that moves keeps its answers, and a file whose content changes is
a new question while the old answers stay with the old content. Places are read once, and again only when their stamp
changes.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from sqlalchemy import Connection, bindparam, delete, exists, select, update

from jostle.datasets.binary_files import MAX_PIXELS, needs_scaling, to_eight_bits
from jostle.labeling.store import Store
from jostle.labeling.store.queries import BULK
from jostle.labeling.store.schema import examples, places

if TYPE_CHECKING:
    from jostle.labeling.answers import Answer
    from jostle.labeling.sources import Source


ContentKind = Literal["image", "text", "row"]
Cell = str | float | int | bool | None

KEY_BYTES = 16  # 128 bits: no two contents of a project ever share a key by chance


@dataclass(frozen=True)
class Question:
    """One example to be answered: its key, what kind of thing it shows, and the name people know it by."""

    key: str
    """What it shows, as 32 hexadecimal digits: two copies of one picture have one key."""
    kind: ContentKind
    """"image", "text" or "row"."""
    name: str
    """A file's path inside the folder, or a row of a table."""
    answer: Answer | None = field(default=None, compare=False)
    """Answer that the person gave before `undo` took it back; None for every other question."""


@dataclass(frozen=True)
class Content:
    """An example as it is shown: the bytes of a picture, one or two texts, or named fields of a row."""

    kind: ContentKind
    """"image", "text" or "row"."""
    name: str
    """What people know it by."""
    data: bytes = b""
    """Of an image, as it lies in its file."""
    mime: str = ""
    """The type of these bytes, for browsers."""
    texts: tuple[str, ...] = ()
    """Of a text, one or two."""
    fields: Mapping[str, Cell] | None = None
    """Of a row, its cells by column."""

    @property
    def key(self) -> str:
        """Key of this content; a file that moves or is copied keeps it."""
        if self.kind == "image":
            return digest(self.data)
        shown = list(self.texts) if self.kind == "text" else dict(self.fields or {})
        return digest(json.dumps([self.kind, shown], ensure_ascii=False, sort_keys=True).encode())

    @property
    def search_text(self) -> str:
        """Text that words are searched in, without capital letters; a picture has none."""
        return "\n".join([*self.texts, *map(str, (self.fields or {}).values())]).casefold()


def digest(data: bytes) -> str:
    """Return the key of some bytes."""
    return hashlib.blake2b(data, digest_size=KEY_BYTES).hexdigest()


def draw_uniform(seed: int, purpose: str, key: str) -> float:
    """Return a number from 0 to 1 drawn for a key: it depends on seed, purpose and key alone."""
    drawn = hashlib.blake2b(f"{seed}\x1f{purpose}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64


BROWSER_FORMATS = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}
THUMBNAIL_SIDE = 360  # pixels; of the longer side
LARGE_PIXELS = 2**22  # more are decoded one picture at a time: each pixel takes up to 24 bytes meanwhile
MAX_SHOWN_SIDE = 4096  # pixels of a picture that is converted for browsers
STRETCH_PERCENTILES = (0.5, 99.5)  # values that become black and white
MAX_CACHED_BYTES = 2**26  # of converted pictures
_LARGE_PICTURE = threading.Lock()
PICTURE_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class SourceError(ValueError):
    """Data that cannot be labeled as it is; the message says what was found and what to do."""


class UnreadableError(ValueError):
    """An example that exists but cannot be shown; the message says why."""


def unreadable_error(content: Content, reason: Exception) -> UnreadableError:
    """Return the error for a file that is no picture, in plain words."""
    unknown = isinstance(reason, UnidentifiedImageError)
    words = "its content has no format that is known" if unknown else reason
    return UnreadableError(f"{content.name} is not an image that can be read: {words}")


@contextmanager
def open_picture(content: Content) -> Iterator[Image.Image]:
    """Open a picture to decode it in the block; one large picture is decoded at a time.

    Raises:
        UnreadableError: It is no picture, it breaks off, or it has more than `MAX_PIXELS` pixels.
    """
    try:
        with Image.open(io.BytesIO(content.data)) as image:
            pixels = image.width * image.height
            if pixels > MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
            with _LARGE_PICTURE if pixels > LARGE_PIXELS else nullcontext():
                yield image
    except PICTURE_ERRORS as reason:
        raise unreadable_error(content, reason) from reason


def check_picture(content: Content) -> None:
    """Decode a picture, small where its format allows, and raise UnreadableError if that fails."""
    with open_picture(content) as image:
        image.draft("RGB", (64, 64))
        image.load()


def to_browser_format(content: Content) -> Content:
    """Return a picture in a format that browsers show: as it is, or converted to PNG, at most 4,096 pixels wide."""
    with open_picture(content) as image:
        mime = BROWSER_FORMATS.get(image.format or "")
        if mime and not needs_scaling(image):
            return Content("image", content.name, content.data, mime)
        shown = to_eight_bits(image)
        if max(shown.size) > MAX_SHOWN_SIDE:
            shown = shown.convert("RGB")
            shown.thumbnail((MAX_SHOWN_SIDE, MAX_SHOWN_SIDE))
        return Content("image", content.name, encode_png(shown), "image/png")


def stretch_picture(content: Content) -> Content:
    """Return a picture as PNG whose darkest pixels are black and whose brightest are white, in place of its own range.

    The darkest and the brightest half percent may be clipped. 16 and 32 bits are read in full, so that a picture with
    a few bright pixels shows what is in the dark.
    """
    with open_picture(content) as image:
        upright = image if needs_scaling(image) else ImageOps.exif_transpose(image).convert("RGB")
        values = np.asarray(upright, dtype=np.float32)  # (height, width) or (height, width, 3)
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, STRETCH_PERCENTILES) if finite.size else (0.0, 1.0)
    shares = np.nan_to_num((values - low) / (high - low or 1.0), nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    shown = Image.fromarray((shares * 255).round().astype(np.uint8))
    shown.thumbnail((MAX_SHOWN_SIDE, MAX_SHOWN_SIDE))
    return Content("image", content.name, encode_png(shown), "image/png")


def make_thumbnail(content: Content, side: int = THUMBNAIL_SIDE) -> Content:
    """Return a picture for a grid or a list; a small one is returned unchanged."""
    with open_picture(content) as image:
        if max(image.size) <= side and not needs_scaling(image):
            return content
        image.draft("RGB", (side, side))  # a JPEG is decoded small
        small = to_eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
        small.thumbnail((side, side))
    held = io.BytesIO()
    small.save(held, "JPEG", quality=80)
    return Content("image", content.name, held.getvalue(), "image/jpeg")


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG of 8 bits a channel."""
    held, image = io.BytesIO(), to_eight_bits(image)
    (image if image.mode in ("1", "L", "P", "RGB", "RGBA") else image.convert("RGB")).save(held, "PNG")
    return held.getvalue()


class PictureCache:
    """Converted pictures by key, the last used ones, at most `MAX_CACHED_BYTES` of them."""

    def __init__(self, limit: int = MAX_CACHED_BYTES) -> None:
        self.limit, self.size = limit, 0
        self._held: OrderedDict[str, Content] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Content]) -> Content:
        """Return the picture of a key, made now if it is not held."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            if key not in self._held and len(made.data) <= self.limit:
                self._held[key] = made
                self.size += len(made.data)
            while self.size > self.limit:
                self.size -= len(self._held.popitem(last=False)[1].data)
        return made


def shown_json(content: Content) -> dict[str, Any]:
    """Return a text or a row as the page draws it."""
    if content.kind == "text":
        return {"kind": "text", "texts": list(content.texts)}
    fields = content.fields or {}
    return {
        "kind": "row",
        "fields": [[name, "" if value is None else str(value)] for name, value in fields.items()],
    }


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
                check_picture(content)
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
            self.store.upsert(tx, places, entries)
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
