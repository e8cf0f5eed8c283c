"""Files of data sets: a local copy first, then the cache, then a download whose checksum must fit; and archives."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

VARIABLE = "JOSTLE_DATA"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
MAX_BYTES = 2**32  # unpacked, of all that an archive holds
MAX_FILES = 1_000_000
MAX_DEPTH = 3  # archives in archives


class DataError(ValueError):
    """A file or a record is not as expected; the message names it and says what is."""


class MissingDataError(DataError):
    """A file is not here and could not be fetched; the message says where from and where to put it."""


class Member(NamedTuple):
    """A file inside an archive, with its compressed content in memory."""

    archive: Path
    name: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.archive}:{self.name}"


File = Path | Member


def path_in(file: File) -> PurePath:
    """Return the path of a file, or its path inside its archive."""
    return PurePath(file.name) if isinstance(file, Member) else file


def file_size(file: File) -> int:
    """Return the bytes of a file."""
    return len(file.content) if isinstance(file, Member) else file.stat().st_size


@dataclass(frozen=True)
class Source:
    """A file (or folder) of a data set, and where it comes from."""

    folder: str  # under the data folder
    name: str
    url: str  # of the file; of the page where people get it, where it may not be downloaded
    checksum: str = ""  # "sha256:..." or "md5:..."; empty where it may not be downloaded


def data_root(root: str | Path | None = None) -> Path | None:
    """Return the folder of local copies: the argument, or the environment variable JOSTLE_DATA."""
    named = root or os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise MissingDataError(f"the data folder {folder} does not exist (it is set by --data or {VARIABLE})")
    return folder


def cache() -> Path:
    """Return the folder of downloads."""
    import pooch

    return Path(pooch.os_cache("jostle"))


def homes(root: Path | None, folder: str) -> list[Path]:
    """Return the folders that may hold a data set, best first."""
    return [home / folder for home in (root, cache()) if home is not None]


def find(root: Path | None, folder: str, *names: str) -> Path | None:
    """Find the first of these names that exists, local copies first."""
    paths = (home / name for home in homes(root, folder) for name in names)
    return next((path for path in paths if path.exists()), None)


def fetch(root: Path | None, source: Source, *also: str) -> Path:
    """Return the file of a source, under its name or one of `also`; download it where the license allows that.

    A file in the cache is compared with its checksum each time.
    """
    if local := find(root, source.folder, source.name, *also):
        if local == cache() / source.folder / source.name:
            check_sum(local, source)
        return local
    if source.checksum:
        return download(root, source)
    raise _missing(root, source, "jostle may not download it:")


def check_sum(path: Path, source: Source) -> None:
    """Raise DataError for a file that does not have the checksum of its source."""
    kind, _, promised = source.checksum.partition(":")
    if not promised:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != promised:
        raise DataError(
            f"{path} is not what was downloaded: its {kind} is {found}, not {promised}. Remove it, and it is "
            f"downloaded again; a file of your own belongs into a folder of yours (--data or {VARIABLE})"
        )


def download(root: Path | None, source: Source) -> Path:
    """Download into the cache, showing progress; a file that does not fit its checksum is not kept."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # pooch announces every download; the bar says it already
    try:
        with _bar(source.name) as bar:
            getter, place = pooch.HTTPDownloader(progressbar=bar), cache() / source.folder
            return Path(pooch.retrieve(source.url, source.checksum, source.name, place, downloader=getter))
    except OSError as reason:  # no network, no such address, no space: all of them
        words = reason.strerror or f"{type(reason).__name__}: {reason}"
        why = f"It could not be downloaded from {source.url} ({words:.100}). Without a network,"
        raise _missing(root, source, why) from reason
    except ValueError as reason:
        raise DataError(
            f"{source.name} from {source.url} is not the expected file: it does not fit {source.checksum}"
        ) from reason
    finally:
        logger.setLevel(level)


def _missing(root: Path | None, source: Source, why: str) -> MissingDataError:
    places = homes(root, source.folder)
    other = (
        "" if root else f" (or set --data or {VARIABLE} to a folder that holds {source.folder}/{source.name})"
    )
    return MissingDataError(
        f"{source.folder}: {source.name} is not in {' or '.join(map(str, places))}. {why} get it from {source.url} "
        f"and put it at {places[0] / source.name}{other}"
    )


class _Bar:
    """Progress bar with pooch's interface, on top of one rich task."""

    def __init__(self, progress: Any, label: str) -> None:
        self._progress, self._task = progress, progress.add_task(label, total=None)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "total":
            self._progress.update(self._task, total=value or None)

    def update(self, step: int) -> None:
        self._progress.advance(self._task, step)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        pass  # the context manager that made the bar ends it, also when the download fails


@contextmanager
def _bar(label: str) -> Iterator[_Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    shown = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*shown, console=console, disable=not console.is_terminal) as progress:
        yield _Bar(progress, label)


def is_archive(name: str) -> bool:
    """Return whether `archive_members` reads a file of this name."""
    return name.lower().endswith(ARCHIVES)


def archive_members(path: Path, wanted: Callable[[PurePath], bool]) -> Iterator[Member]:
    """Yield the wanted files of an archive, in its order; archives inside it are opened too.

    An archive that unpacks to more than `MAX_BYTES`, or to more than `MAX_FILES` files, is an error.
    """
    try:
        with path.open("rb") as file:
            yield from _members(path, path.name, file, wanted, Budget(MAX_BYTES, MAX_FILES), depth=1)
    except (OSError, EOFError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as reason:
        raise DataError(
            f"{path} is not a whole archive ({', '.join(ARCHIVES)} are read): {reason}"
        ) from reason
    except TooLargeError as reason:
        raise DataError(f"{path} is not unpacked: {reason}") from None


class TooLargeError(Exception):
    """An archive unpacks to more than its budget."""


@dataclass
class Budget:
    """Bytes and files that may still be unpacked."""

    bytes_left: int
    files_left: int

    def spend(self, count: int = 0, files: int = 0) -> None:
        """Subtract so many bytes and files; raise TooLargeError if none are left."""
        self.bytes_left -= count
        self.files_left -= files
        if self.bytes_left < 0:
            raise TooLargeError(f"it holds more than {MAX_BYTES:,} bytes")
        if self.files_left < 0:
            raise TooLargeError(f"it holds more than {MAX_FILES:,} files")


def read_gzip(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a gzip file of at most so many bytes."""
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
    if depth > MAX_DEPTH:
        raise TooLargeError(f"it holds archives in archives more than {MAX_DEPTH} deep")
    for inner, content in (_zip_files if name.lower().endswith(".zip") else _tar_files)(file, budget):
        if wanted(PurePath(inner)):
            yield Member(path, inner, content())
        elif is_archive(inner):
            yield from _members(path, inner, io.BytesIO(content()), wanted, budget, depth + 1)


def _zip_files(file: IO[bytes], budget: Budget) -> Iterator[tuple[str, Content]]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.spend(files=1)
            if not info.is_dir():
                yield info.filename, lambda info=info: _unzip(archive, info, budget)  # type: ignore[misc]


def _unzip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> bytes:
    budget.spend(info.file_size)  # zipfile never reads on beyond it
    return archive.read(info)


def _tar_files(file: IO[bytes], budget: Budget) -> Iterator[tuple[str, Content]]:
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream: Any = Bounded(gzip.GzipFile(fileobj=file) if packed else file, budget)
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # as a stream: what is skipped is counted too
        for info in archive:
            budget.spend(files=1)
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
        """Read so many bytes, or the rest."""
        content = self.file.read(size)
        self.budget.spend(len(content))
        return content
