"""Where files are: a local copy first, then the cache, then a download whose checksum must fit."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jostle.datasets.errors import DataError, MissingDataError

VARIABLE = "JOSTLE_DATA"


@dataclass(frozen=True)
class Source:
    """A file (or folder) of a data set, and where it comes from."""

    folder: str  # under the data folder
    name: str
    url: str  # of the file; of the page where people get it, where it may not be downloaded
    checksum: str = ""  # "sha256:..." or "md5:..."; empty where it may not be downloaded


def data_root(root: str | Path | None = None) -> Path | None:
    """The folder of local copies: the argument, or the environment variable JOSTLE_DATA."""
    named = root or os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise MissingDataError(f"the data folder {folder} does not exist (it is set by --data or {VARIABLE})")
    return folder


def cache() -> Path:
    """The folder that downloads go to."""
    import pooch

    return Path(pooch.os_cache("jostle"))


def homes(root: Path | None, folder: str) -> list[Path]:
    """Where a data set's files may lie, best first."""
    return [home / folder for home in (root, cache()) if home is not None]


def find(root: Path | None, folder: str, *names: str) -> Path | None:
    """The first of these names that exists, local copies first."""
    paths = (home / name for home in homes(root, folder) for name in names)
    return next((path for path in paths if path.exists()), None)


def fetch(root: Path | None, source: Source, *also: str) -> Path:
    """The file of a source, under its name or one of `also`; downloaded where that is allowed.

    What an earlier download left in the cache is compared with its checksum again.
    """
    if local := find(root, source.folder, source.name, *also):
        if local == cache() / source.folder / source.name:
            check_sum(local, source)
        return local
    if source.checksum and not _offline.get():
        return download(root, source)
    if source.checksum:
        raise MissingDataError(f"{_absent(root, source)} Nothing is downloaded here: {_advice(root, source)}")
    raise MissingDataError(f"{_absent(root, source)} jostle may not download it: {_advice(root, source)}")


def check_sum(path: Path, source: Source) -> None:
    """Refuse a file that is not what its checksum promises."""
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


_offline: ContextVar[bool] = ContextVar("offline", default=False)


@contextmanager
def no_downloads() -> Iterator[None]:
    """Take only what lies on this machine while this lasts."""
    token = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(token)


def download(root: Path | None, source: Source) -> Path:
    """Download into the cache, showing progress; a file that does not fit its checksum is not kept."""
    import pooch

    place = cache() / source.folder
    try:
        with _quiet(pooch.get_logger()), _bar(source.name) as bar:
            getter = pooch.HTTPDownloader(progressbar=bar)
            path = pooch.retrieve(source.url, source.checksum, source.name, place, downloader=getter)
    except OSError as reason:  # no network, no such address, no space: all of them
        raise MissingDataError(
            f"{_absent(root, source)} It could not be downloaded from {source.url} ({_short(reason)}). "
            f"Without a network, {_advice(root, source)}"
        ) from reason
    except ValueError as reason:
        raise DataError(
            f"{source.name} from {source.url} is not the expected file: it does not fit {source.checksum}"
        ) from reason
    return Path(path)


def _absent(root: Path | None, source: Source) -> str:
    places = " or ".join(str(home) for home in homes(root, source.folder))
    return f"{source.folder}: {source.name} is not in {places}."


def _advice(root: Path | None, source: Source) -> str:
    place = homes(root, source.folder)[0] / source.name
    other = f" (or set --data or {VARIABLE} to a folder that holds {source.folder}/{source.name})"
    return f"get it from {source.url} and put it at {place}{'' if root else other}"


def _short(reason: OSError, most: int = 100) -> str:
    words = reason.strerror or f"{type(reason).__name__}: {reason}"
    return words if len(words) <= most else words[:most] + " ..."


@contextmanager
def _quiet(logger: Any) -> Iterator[None]:
    level = logger.level
    logger.setLevel("WARNING")  # pooch announces every download; the bar says it already
    try:
        yield
    finally:
        logger.setLevel(level)


class _Bar:
    """What pooch asks of a progress bar, on top of one rich task."""

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
