"""Runs on disk: a line for each cycle, written whole or not at all, and a manifest that says what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jostle.plumbing.files import write_whole


class RunBusyError(RuntimeError):
    """Another process is writing this run."""


class ChangedError(ValueError):
    """A folder holds runs of another protocol, or of other data."""


@dataclass(frozen=True)
class Cycle:
    """One point of a learning curve; what varies between repetitions has seconds or memory in its name."""

    cycle: int
    labelled: int
    picked: list[int]  # ids newly labelled, in pick order; in cycle 0 the initial set
    metrics: dict[str, float]
    train_seconds: float
    select_seconds: float  # of the selection that gave `picked`
    peak_memory_bytes: int | None  # None where the system does not tell


@dataclass(frozen=True)
class RunFile:
    """The file of one run, `<folder>/<label>/<seed>.jsonl`."""

    path: Path

    @classmethod
    def of(cls, folder: Path, label: str, seed: int) -> RunFile:
        """The file of a label and a seed."""
        return cls(folder / label / f"{seed}.jsonl")

    def read(self) -> list[Cycle]:
        """All whole cycles from the first on; a torn tail is as if it had not been written."""
        cycles: list[Cycle] = []
        if not self.path.exists():
            return cycles
        for line in self.path.read_bytes().split(b"\n"):
            try:
                cycle = Cycle(**json.loads(line))
            except (ValueError, TypeError):
                break
            if cycle.cycle != len(cycles):
                break
            cycles.append(cycle)
        return cycles

    def write(self, cycles: Sequence[Cycle]) -> None:
        """Replace the file by these cycles."""
        write_whole(self.path, "".join(json.dumps(asdict(cycle)) + "\n" for cycle in cycles))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from this run; the lock ends with its process, however that ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_name(f".{self.path.stem}.lock"), wait=False):
            yield


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


IDENTITY = ("protocol", "data")  # of a manifest: what may not change while runs are added
FREE = frozenset({"name", "title", "seeds", "strategies"})  # of a protocol: what changes no number of a run


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot hold runs: a file, one that cannot be written, or one of other things."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    if not there.is_dir():
        raise ValueError(f"--out {folder}: {there} is a file; name a folder for the runs")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"--out {folder}: no permission to write into {there}")
    if there == folder and recorded(folder) is None:
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if others:
            raise ValueError(
                f"--out {folder} is not empty ({others[0]}) and has no manifest.json, so it is not a folder of "
                "jostle run; name a new folder"
            )


def enter(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder, or extend the one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".manifest.lock", wait=True):
        merged = agreed(folder, manifest)
        if merged != recorded(folder):
            write_whole(folder / "manifest.json", json.dumps(merged, indent=1) + "\n")


def recorded(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder, None where there is none."""
    path = folder / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise ChangedError(f"{path} is not JSON: {wrong}; use another folder with --out") from None
    return manifest


def agreed(folder: Path, new: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of what is in the folder and of what is to come; another protocol or data are refused."""
    old = recorded(folder)
    if old is None:
        return dict(new)
    changes = [*differences(old, new), *changed_files(folder, old, new)]
    if changes:
        shown = "\n".join(f"  {field}: {was!r} -> {now!r}" for field, was, now in changes)
        raise ChangedError(
            f"{folder} holds runs that differ from what was asked for now:\n{shown}\n"
            "Use the same settings and files to go on, or another folder with --out"
        )
    strategies = {**old["protocol"]["strategies"], **new["protocol"]["strategies"]}
    earlier = [*old.get("earlier_commands", ()), old["command"]]
    kept = [command for place, command in enumerate(earlier) if command not in earlier[:place]]
    kept = [command for command in kept if command != new["command"]]
    merged = {**new, "protocol": {**new["protocol"], "strategies": strategies}}
    if files := {**old.get("files", {}), **new.get("files", {})}:
        merged["files"] = files
    return {**merged, "earlier_commands": kept} if kept else merged


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Fields whose values would give other numbers, each with what it was and what it is."""
    found: list[tuple[str, Any, Any]] = []
    for part in IDENTITY:
        was, now = flat(comparable(old.get(part, {}))), flat(comparable(new.get(part, {})))
        fields = [*was, *(field for field in now if field not in was)]
        prefix = "" if part == "protocol" else f"{part}."
        found += [(prefix + f, was.get(f), now.get(f)) for f in fields if was.get(f) != now.get(f)]
    before, after = (dict(each["protocol"].get("strategies", {})) for each in (old, new))
    for label in before.keys() & after.keys():
        if before[label] != after[label]:
            found.append((f"strategies.{label}", before[label], after[label]))
    return found


def changed_files(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Users' own files that are not what they were; a strategy without any run may have changed."""
    was, now = old.get("files", {}), new.get("files", {})
    return [
        (f"sha256 of the file of {field}", was[field], now[field])
        for field in was.keys() & now.keys()
        if was[field] != now[field] and (field == "dataset" or _has_runs(folder, field))
    ]


def _has_runs(folder: Path, field: str) -> bool:
    return any((folder / field.removeprefix("strategies.")).glob("*.jsonl"))


def comparable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that decide numbers."""
    return {key: value for key, value in fields.items() if key not in FREE}


def flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, `training.epochs` and the like."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found
