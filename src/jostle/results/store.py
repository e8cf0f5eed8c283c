"""The files of runs: a line for each cycle, written whole or not at all, and one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from jostle.plumbing.files import write_whole
from jostle.results.cycles import (
    CorruptLineError,
    Cycle,
    TornLineError,
    check_in_order,
    from_line,
    to_line,
)


class RunBusyError(RuntimeError):
    """Another process is writing this run."""


class CorruptRunError(ValueError):
    """A run's file that is not what was written."""


@dataclass(frozen=True)
class RunFile:
    """The file of one run, `<folder>/<label>/<seed>.jsonl`: the one place where runs are read and written."""

    path: Path

    @classmethod
    def of(cls, folder: Path, label: str, seed: int) -> RunFile:
        """The file of a label and a seed."""
        return cls(folder / label / f"{seed}.jsonl")

    @classmethod
    def all_in(cls, folder: Path) -> list[RunFile]:
        """The files of all runs of a folder."""
        return [cls(path) for path in sorted(folder.glob("*/*.jsonl"))]

    @property
    def label(self) -> str:
        """The strategy's label."""
        return self.path.parent.name

    @property
    def seed(self) -> int:
        """The run's seed."""
        if not self.path.stem.isdecimal():
            raise ValueError(f"{self.path} is not a run: its name should be a seed, such as 0.jsonl")
        return int(self.path.stem)

    def read(self) -> list[Cycle]:
        """All cycles; a last line that is torn is as if it had not been written, anything else is an error."""
        lines = self._lines()
        cycles: list[Cycle] = []
        try:
            for place, line in enumerate(lines):
                try:
                    cycles.append(from_line(line, place))
                except TornLineError as wrong:
                    if place < len(lines) - 1:  # a killed process tears the last line only
                        raise CorruptLineError(place, str(wrong)) from None
            check_in_order(cycles)
        except CorruptLineError as wrong:
            raise self.corrupt(wrong.position, str(wrong)) from None
        return cycles

    def append(self, cycle: Cycle) -> None:
        """Add a cycle after those before it, whose lines stay as they are; a torn line goes."""
        kept = self._lines()[: cycle.cycle]
        if len(kept) < cycle.cycle:
            raise self.corrupt(len(kept), "it is gone since the run began")
        write_whole(self.path, "".join(f"{line}\n" for line in [*kept, to_line(cycle)]))

    def corrupt(self, position: int, why: str) -> CorruptRunError:
        """The error of a line that cannot be true, and what to do about it."""
        return CorruptRunError(
            f"{self.path}, line {position + 1} is corrupt: {why}. Delete the line and all after it, or the whole "
            "file, and the command that made it does them again"
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from this run; the lock ends with its process, however that ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_name(f".{self.path.stem}.lock"), wait=False):
            yield

    def _lines(self) -> list[str]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return text.rstrip("\n").split("\n") if text.strip("\n") else []


REFUSED_AFTER = 0.2  # seconds: a holder that is just leaving is no reason to refuse


@contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Hold a lock file, and remove it; of two that come at once one waits, or is refused."""
    lock = FileLock(path, timeout=-1 if wait else REFUSED_AFTER)
    try:
        lock.acquire()
    except Timeout:
        raise RunBusyError(f"another process is writing {path.parent.name}/{path.stem[1:]}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows lets nobody remove an open file
            path.unlink()  # still held: who waits for it sees that it is gone, and makes another
        lock.release()
