"""Files inside zip and tar archives, read into memory within bounds; also those of an archive inside an archive."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

from jostle.datasets.errors import DataError
from jostle.datasets.images import Member

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
MOST_BYTES = 2**32  # unpacked, of all that an archive holds
MOST_FILES = 1_000_000
MOST_DEPTH = 3  # archives in archives


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive which `members` can read."""
    return name.lower().endswith(SUFFIXES)


def members(path: Path, wanted: Callable[[PurePath], bool]) -> Iterator[Member]:
    """The wanted files of an archive, in its order; archives inside it are opened too.

    An archive that unpacks to more than `MOST_BYTES`, or to more than `MOST_FILES` files, is an error.
    """
    try:
        with path.open("rb") as file:
            yield from _members(path, path.name, file, wanted, Budget(MOST_BYTES, MOST_FILES), depth=1)
    except (OSError, EOFError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as reason:
        raise DataError(
            f"{path} is not a whole archive ({', '.join(SUFFIXES)} are read): {reason}"
        ) from reason
    except TooLargeError as reason:
        raise DataError(f"{path} is not unpacked: {reason}") from None


class TooLargeError(Exception):
    """More comes out of a file than is sensible."""


@dataclass
class Budget:
    """How much may still be unpacked."""

    bytes_left: int
    files_left: int

    def spend(self, count: int) -> None:
        """Take so many bytes, or say that there are too many."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise TooLargeError(f"it holds more than {MOST_BYTES:,} bytes")

    def open_file(self) -> None:
        """Take one file."""
        self.files_left -= 1
        if self.files_left < 0:
            raise TooLargeError(f"it holds more than {MOST_FILES:,} files")


def gunzipped(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a gzip file, if it is not more than so many bytes."""
    try:
        with gzip.open(path) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as reason:
        raise DataError(f"{path} is not a whole gzip file: {reason}") from reason
    if len(content) > most:
        raise DataError(f"{path} is not unpacked: it holds more than {most:,} bytes")
    return content


Content = Callable[[], bytes]


def _members(
    path: Path, name: str, file: IO[bytes], wanted: Callable[[PurePath], bool], budget: Budget, depth: int
) -> Iterator[Member]:
    if depth > MOST_DEPTH:
        raise TooLargeError(f"it holds archives in archives more than {MOST_DEPTH} deep")
    for inner, content in (_zipped if name.lower().endswith(".zip") else _tarred)(file, budget):
        if wanted(PurePath(inner)):
            yield Member(path, inner, content())
        elif is_archive(inner):
            yield from _members(path, inner, io.BytesIO(content()), wanted, budget, depth + 1)


def _zipped(file: IO[bytes], budget: Budget) -> Iterator[tuple[str, Content]]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.open_file()
            if not info.is_dir():
                yield info.filename, lambda info=info: _unzipped(archive, info, budget)  # type: ignore[misc]


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> bytes:
    budget.spend(info.file_size)  # zipfile never reads on beyond it
    return archive.read(info)


def _tarred(file: IO[bytes], budget: Budget) -> Iterator[tuple[str, Content]]:
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream: Any = Bounded(gzip.GzipFile(fileobj=file) if packed else file, budget)
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # as a stream: what is skipped is counted too
        for info in archive:
            budget.open_file()
            if info.isfile() and (opened := archive.extractfile(info)):
                if info.size > budget.bytes_left:
                    budget.spend(info.size)
                yield info.name, opened.read


@dataclass(frozen=True)
class Bounded:
    """A stream whose bytes are taken from a budget."""

    file: IO[bytes] | gzip.GzipFile
    budget: Budget

    def read(self, size: int) -> bytes:
        """So many bytes, or what is left."""
        content = self.file.read(size)
        self.budget.spend(len(content))
        return content
