"""Sources of examples: a folder of images, a table, a function in a file, or the digits of the demo.

A source lists places by name and reads one at a time; it changes, copies and keeps nothing. A place's stamp changes
when its content may have: the stamp of a file is its size and time, that of a row its content.

The index keeps places and their keys in the store. An example is a content, not a file: two copies of a picture are one
question, a file that moves keeps its answers, and a file whose content changes is a new question while the old answers
stay with the old content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from PIL import Image
from sqlalchemy import Connection, bindparam, delete, exists, select, update

from jostle.datasets.arrow_files import holds_arrow
from jostle.datasets.table_files import plain_row
from jostle.labeling.sources.contents import (
    Cell,
    Content,
    ContentKind,
    SourceError,
    UnreadableError,
    check_picture,
    draw_uniform,
    encode_png,
)
from jostle.labeling.sources.tables import PictureTable, Source, Table, find_picture_column
from jostle.labeling.store import Store
from jostle.labeling.store.schema import BULK, examples, places
from jostle.utils.files import IMAGES, is_hidden, is_image
from jostle.utils.names import printable, restored
from jostle.utils.user_files import from_file, is_own

EXPECTED_ITEMS = (
    "a list of texts, of pairs of texts, of dicts (rows), of paths of images, of PIL images, or of arrays of pixels; "
    "or (such a list, a list of targets)"
)
DEMO = "jostle:digits"  # names the digits below, which are no file
DIGIT_CLASSES = tuple("0123456789")
DIGIT_SIDE = 64  # pixels; drawn larger than their 8, as people read shapes and not squares
DIGIT_INKS = 16  # of scikit-learn's pixels
ProgressCallback = Callable[[str, int, int], None]  # what is done, how many of, how many
PLACES_PER_TRANSACTION = 200  # others wait no longer than entering these takes


class ImageFolder(Source):
    """Folder of images, with the folders in it; links to folders are not followed."""

    kind: ContentKind = "image"

    def __init__(self, root: Path) -> None:
        self.root = root
        if next(self._walk(root, ""), None) is None:
            raise self._empty()

    def places(self) -> dict[str, str]:
        """Return size and time of every image file; bytes of a name that are no UTF-8 are written as `\\xe9`."""
        found = {printable(name): stamp for name, stamp in self._walk(self.root, "")}
        if not found:
            raise self._empty()
        return dict(sorted(found.items()))

    def _empty(self) -> SourceError:
        return SourceError(
            f"{self.root} holds no images, nor do the folders in it: name a folder of pictures "
            f"({', '.join(sorted(IMAGES))}), a .csv, a .parquet or file.py:name"
        )

    def _walk(self, folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry)
                elif is_image(PurePath(entry.name)) and entry.is_file():
                    status = entry.stat()
                    yield prefix + entry.name, f"{status.st_size}-{status.st_mtime_ns}"
        for entry in inner:
            if not is_hidden(entry.name) and not (Path(entry.path) / "labels.db").exists():
                yield from self._walk(Path(entry.path), f"{prefix}{entry.name}/")

    def read(self, name: str) -> Content:
        """Read the bytes of one file."""
        path = self.file(name)
        if not is_image(PurePath(name)) or ".." in PurePath(name).parts or not path.is_file():
            raise KeyError(name)
        try:
            return Content("image", name, path.read_bytes())
        except OSError as reason:
            raise UnreadableError(f"{name} cannot be read: {reason.strerror or reason}") from reason

    def file(self, name: str) -> Path:
        """Return the file of a place."""
        path = self.root / name
        return path if path.is_file() else self.root / restored(name)

    def column(self, column: str) -> dict[str, Cell]:
        """Return the only column of a folder, `folder`: the name of the folder that a picture lies in."""
        if column != "folder":
            raise SourceError(f"a folder of images has no column {column!r}; its only one is `folder`")
        return {name: PurePath(name).parent.name or None for name in self.places()}


def open_source(
    spec: str | Path | Source,
    *,
    text: str | Sequence[str] | None = None,
    hide: Sequence[str] = (),
    ask_for_texts: bool = False,
) -> Source:
    """Open the source of a path.

    Args:
        spec: A folder, a table, `file.py:name`, or `DEMO`.
        text: Columns of texts; "none": the table has none.
        hide: Columns that are neither shown nor learned from.
        ask_for_texts: Raise SourceError for a table with a column of texts if `text` does not say what it is.
    """
    if not isinstance(spec, str | Path):
        return spec
    if spec == DEMO:
        return Digits()
    if is_own(str(spec)):
        return CallableSource(str(spec))
    path = Path(spec).expanduser()
    if not text and holds_arrow(path) and (column := find_picture_column(path)) is not None:
        return PictureTable(path.absolute(), column)
    if path.is_dir() and not holds_arrow(path):
        if text or hide:
            raise SourceError(f"{path} is a folder of images and has no columns; got {text or hide}")
        return ImageFolder(path.absolute())
    if not holds_arrow(path) and not (path.suffix.lower() == ".csv" and path.is_file()):
        what = "is not a csv or Parquet file" if path.exists() else "does not exist"
        raise SourceError(f"{path} {what}: name a folder of images, a .csv, a .parquet or file.py:name")
    columns = (text,) if isinstance(text, str) else tuple(text or ())
    return Table(path.absolute(), columns, tuple(hide), ask_for_texts)


class CallableSource(Source):
    """Result of a user's function, which is called once, when the project is opened."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        made = from_file(spec)()
        labeled = isinstance(made, tuple) and len(made) == 2 and not isinstance(made[0], str)
        items, targets = made if labeled else (made, None)
        if not hasattr(items, "__len__") or not hasattr(items, "__getitem__") or not len(items):
            raise SourceError(f"{spec} returned {type(made).__name__}; expected {EXPECTED_ITEMS}")
        self.items, self.targets = items, targets
        self.kind: ContentKind = to_content(items[0], "0", spec).kind

    def places(self) -> dict[str, str]:
        """Return positions in the list; pictures are read when they are needed."""
        names = map(str, range(len(self.items)))
        return {name: self.spec if self.kind == "image" else self.read(name).key for name in names}

    def read(self, name: str) -> Content:
        """Read one item."""
        if not name.isdecimal() or int(name) >= len(self.items):
            raise KeyError(name)
        return to_content(self.items[int(name)], name, self.spec)

    def column(self, column: str) -> dict[str, Cell]:
        """Return the only column, `target`: the second list that the function returned."""
        if column != "target" or self.targets is None:
            raise SourceError(
                f"{self.spec} has no column {column!r}; return (items, targets) to have a `target`"
            )
        cells = (target.item() if hasattr(target, "item") else target for target in self.targets)
        return {str(i): cell for i, cell in enumerate(cells)}


def to_content(item: Any, name: str, spec: str) -> Content:
    """Return an item as a content."""
    if isinstance(item, str):
        return Content("text", name, texts=(item,))
    if isinstance(item, Path):
        return Content("image", name, item.read_bytes())
    if isinstance(item, Image.Image):
        return Content("image", name, encode_png(item))
    if isinstance(item, Mapping):
        return Content("row", name, fields=plain_row(item))
    if isinstance(item, Sequence) and len(item) == 2 and all(isinstance(part, str) for part in item):
        return Content("text", name, texts=tuple(item))
    pixels = getattr(item, "shape", ())
    if len(pixels) in (2, 3):
        return Content("image", name, encode_png(image_from_array(item)))
    if len(pixels) == 1:
        return Content("row", name, fields={f"x{i}": float(value) for i, value in enumerate(item)})
    raise SourceError(f"{spec} returned items of {type(item).__name__}; expected {EXPECTED_ITEMS}")


def image_from_array(values: Any) -> Image.Image:
    """Return an array (h, w), (h, w, channels) or (channels, h, w) as an image; fractions from 0 to 1 become bytes."""
    array = np.asarray(values)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if array.dtype.kind == "f":
        array = array * 255 if array.max(initial=0) <= 1 else array
    return Image.fromarray(np.clip(array, 0, 255).astype(np.uint8))


class Digits(Source):
    """1,797 handwritten digits, dark on light; nothing is downloaded."""

    kind: ContentKind = "image"

    @cached_property
    def bunch(self) -> Any:
        """Pixels and true digits."""
        from sklearn.datasets import load_digits  # here, because it takes its time

        return load_digits()

    @cached_property
    def pixels(self) -> dict[str, Any]:
        """Rows of scikit-learn's table by the names of the pictures."""
        return {f"digit-{number:04}.png": rows for number, rows in enumerate(self.bunch.images)}

    def places(self) -> dict[str, str]:
        """Return all digits; they never change."""
        return dict.fromkeys(self.pixels, "1")

    def read(self, name: str) -> Content:
        """Draw one digit."""
        gray = 255 - np.round(self.pixels[name] * (255 / DIGIT_INKS)).astype(np.uint8)
        image = Image.fromarray(gray).resize((DIGIT_SIDE, DIGIT_SIDE), Image.Resampling.BICUBIC)
        return Content("image", name, encode_png(image))

    def column(self, column: str) -> dict[str, Cell]:
        """Return the true digits, as `digit`."""
        if column != "digit":
            raise ValueError(f"the digits have no column {column!r}; the truth is `digit`")
        return {name: str(truth) for name, truth in zip(self.pixels, self.bunch.target, strict=True)}


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
            self.store.upsert(tx, places, list(map(asdict, rows)))
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
