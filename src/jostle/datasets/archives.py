"""Files inside zip and tar archives, read into memory; also those of an archive inside an archive."""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import IO

from jostle.datasets.errors import DataError
from jostle.datasets.images import Member

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive which `members` can read."""
    return name.lower().endswith(SUFFIXES)


def members(path: Path, wanted: Callable[[PurePath], bool]) -> Iterator[Member]:
    """The wanted files of an archive, in its order; archives inside it are opened too."""
    try:
        with path.open("rb") as file:
            yield from _members(path, path.name, file, wanted)
    except (OSError, EOFError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as reason:
        raise DataError(
            f"{path} is not a whole archive ({', '.join(SUFFIXES)} are read): {reason}"
        ) from reason


def _members(path: Path, name: str, file: IO[bytes], wanted: Callable[[PurePath], bool]) -> Iterator[Member]:
    for inner, content in _zipped(file) if name.lower().endswith(".zip") else _tarred(file):
        if wanted(PurePath(inner)):
            yield Member(path, inner, content())
        elif is_archive(inner):
            yield from _members(path, inner, io.BytesIO(content()), wanted)


def _zipped(file: IO[bytes]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield info.filename, lambda info=info: archive.read(info)  # type: ignore[misc]


def _tarred(file: IO[bytes]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        for info in archive:
            if info.isfile() and (opened := archive.extractfile(info)):
                yield info.name, opened.read
