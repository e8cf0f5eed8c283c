"""Where examples come from: a folder of images, a csv or Parquet table, or a function of yours in a file.

A source lists places by name and reads one at a time; nothing is changed, copied or kept. A place's stamp changes when
its content may have: that of a file is its size and time, that of a row its content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Protocol

from jostle.labelling.contents import Cell, Content, ContentKind
from jostle.labelling.pictures import UnreadableError
from jostle.plumbing.files import is_hidden, is_image
from jostle.plumbing.names import printable, restored
from jostle.plumbing.user_files import is_own


class SourceError(ValueError):
    """Data that cannot be labelled as it is; the message says what was found and what to do."""


class Source(Protocol):
    """Examples by the names of their places."""

    kind: ContentKind

    def places(self) -> Mapping[str, str]:
        """The stamp of every place by its name, as it is now."""

    def read(self, name: str) -> Content:
        """What lies at a place; KeyError where nothing does, UnreadableError where it cannot be shown."""

    def contents(self) -> Iterator[Content]:
        """All that lies there and can be read, in order."""

    def column(self, column: str) -> Mapping[str, Cell]:
        """A column that is not shown, by place: labels that are there already, or a simulation's truth."""


class Folder:
    """A folder of images, with the folders in it; links to folders are not followed."""

    kind: ContentKind = "image"

    def __init__(self, root: Path) -> None:
        self.root = root

    def places(self) -> dict[str, str]:
        """Size and time of every image file; bytes of a name that are no UTF-8 are written as `\\xe9`."""
        found = {printable(name): stamp for name, stamp in self._walk(self.root, "")}
        if not found:
            raise SourceError(f"{self.root} holds no images, nor do the folders in it")
        return dict(sorted(found.items()))

    def _walk(self, folder: Path, prefix: str) -> list[tuple[str, str]]:
        found, inner = [], []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry)
                elif is_image(PurePath(entry.name)) and entry.is_file():
                    status = entry.stat()
                    found.append((prefix + entry.name, f"{status.st_size}-{status.st_mtime_ns}"))
        for entry in inner:
            if not is_hidden(entry.name) and not (Path(entry.path) / "labels.db").exists():
                found += self._walk(Path(entry.path), f"{prefix}{entry.name}/")
        return found

    def read(self, name: str) -> Content:
        """The bytes of one file."""
        path = self.file(name)
        if not is_image(PurePath(name)) or ".." in PurePath(name).parts or not path.is_file():
            raise KeyError(name)
        try:
            return Content("image", name, path.read_bytes())
        except OSError as reason:
            raise UnreadableError(f"{name} cannot be read: {reason.strerror or reason}") from reason

    def file(self, name: str) -> Path:
        """The file that a place is."""
        path = self.root / name
        return path if path.is_file() else self.root / restored(name)

    def contents(self) -> Iterator[Content]:
        """Every image file that can be read."""
        for name in self.places():
            with suppress(KeyError, UnreadableError):
                yield self.read(name)

    def column(self, column: str) -> dict[str, Cell]:
        """The only column of a folder is `folder`: the name of the folder that a picture lies in."""
        if column != "folder":
            raise SourceError(f"a folder of images has no column {column!r}; its only one is `folder`")
        return {name: PurePath(name).parent.name or None for name in self.places()}


def open_source(
    spec: str | Path | Source, *, text: str | Sequence[str] | None = None, hide: Sequence[str] = ()
) -> Source:
    """The source that a path names; `hide` are columns that are neither shown nor learnt from."""
    if not isinstance(spec, str | Path):
        return spec
    if is_own(str(spec)):
        from jostle.labelling.own import Own

        return Own(str(spec))
    path = Path(spec).expanduser()
    if path.is_dir():
        if text or hide:
            raise SourceError(f"{path} is a folder of images and has no columns; got {text or hide}")
        return Folder(path.absolute())
    if path.suffix.lower() not in (".csv", ".parquet") or not path.is_file():
        what = "is not a csv or Parquet file" if path.exists() else "does not exist"
        raise SourceError(f"{path} {what}: name a folder of images, a .csv, a .parquet or file.py:name")
    from jostle.labelling.tables import CsvTable, ParquetTable

    table: Any = CsvTable if path.suffix.lower() == ".csv" else ParquetTable
    columns = (text,) if isinstance(text, str) else tuple(text or ())
    return table(path.absolute(), columns, tuple(hide))  # type: ignore[no-any-return]
