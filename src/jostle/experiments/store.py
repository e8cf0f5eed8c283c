"""Run files and manifests: what an experiment stores, written whole or not at all by one process at a time.

A run file has one line for each cycle, JSON with a checksum.
An experiment is a folder (manifest.json, previews.json, LABEL/SEED.jsonl) or that folder packed as NAME.tar.xz.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path, PurePath
from typing import Any

from filelock import FileLock, Timeout
from pydantic import StrictInt, TypeAdapter, ValidationError

from jostle.experiments.protocol import rename_strategies
from jostle.utils.files import write_whole

__all__ = ["CorruptRunError", "Cycle", "RunBusyError"]


CHECKSUM = "checksum"  # the field of a line that guards all others; lines of jostle 0.1 have none
OLD_LABELED = "labelled"  # the name of the field `labeled` in files of jostle 0.1 and 0.2
NEEDED = frozenset({"labeled", "metrics"})  # without these a line is no cycle
ABSENT = {
    "picked": [],
    "train_seconds": nan,
    "select_seconds": nan,
    "peak_memory_bytes": None,
    "passes": None,
}


class CorruptRunError(ValueError):
    """A run's file that is not what was written.

    Args:
        path: The file.
        position: The line that cannot be true, from 0.
        why: The reason.
    """

    def __init__(self, path: PurePath, position: int, why: str) -> None:
        super().__init__(
            f"{path}, line {position + 1} is corrupt: {why}. Delete the line and all after it, or the whole file; the "
            "command that made it computes them again"
        )


@dataclass(frozen=True)
class Cycle:
    """One point of a learning curve; what varies between repetitions has seconds or memory in its name."""

    cycle: StrictInt
    """Its number, from 0."""
    labeled: StrictInt
    """How many examples were labeled when the model was trained."""
    picked: list[StrictInt]
    """Ids that are newly labeled, in pick order; in cycle 0 the initial set."""
    metrics: dict[str, float]
    """How good the model was, by the name of the metric; nan where it could not be measured."""
    train_seconds: float
    """What training took."""
    select_seconds: float
    """What the selection took that gave `picked`."""
    peak_memory_bytes: int | None
    """The most memory that was held; None where the system does not tell."""
    passes: float | None = None
    """Passes of the candidates through networks, for the selection; None where they were not counted."""


_CYCLE = TypeAdapter(Cycle)


def to_line(cycle: Cycle) -> str:
    """The line of a cycle."""
    fields = asdict(cycle)
    return json.dumps({**fields, CHECKSUM: checksum(fields)})


def from_line(line: str, position: int) -> Cycle | None:
    """The cycle of a line, None of a torn one; what a line from another hand lacks is filled in.

    Raises:
        ValueError: The line is whole and cannot be true.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    stated = fields.pop(CHECKSUM, None)
    fits = stated is None or stated == checksum(fields)
    if OLD_LABELED in fields and "labeled" not in fields:
        fields["labeled"] = fields.pop(OLD_LABELED)
    if not fields.keys() >= NEEDED:
        return None
    if not fits:
        raise ValueError("its checksum does not fit")
    if unknown := fields.keys() - {"cycle", *ABSENT, *NEEDED}:
        raise ValueError(f"a cycle has no field {min(unknown)!r}")
    if isinstance(fields["metrics"], dict):
        fields["metrics"] = {name: nan if each is None else each for name, each in fields["metrics"].items()}
    try:
        return _CYCLE.validate_python({"cycle": position, **ABSENT, **fields})
    except ValidationError as wrong:
        error = wrong.errors()[0]
        raise ValueError(f"{'.'.join(map(str, error['loc']))}: {error['msg'].lower()}") from None


def checksum(fields: Mapping[str, Any]) -> str:
    """Sixteen digits that any change of a value changes, whatever the order of the fields."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


PACKED = ".tar.xz"  # ending of an experiment in one file


class RunBusyError(RuntimeError):
    """Another process is writing this run."""


@dataclass(frozen=True)
class RunFile:
    """The file of one run, `<folder>/<label>/<seed>.jsonl`: the one place where runs are read and written."""

    path: Path

    @classmethod
    def of(cls, folder: Path, label: str, seed: int) -> RunFile:
        """The file of a label and a seed."""
        return cls(folder / label / f"{seed}.jsonl")

    @property
    def seed(self) -> int:
        """The run's seed."""
        return seed_in(self.path)

    def read(self) -> list[Cycle]:
        """All cycles; a last line that is torn is as if it had not been written, anything else is an error."""
        return parse_cycles(self._lines(), self.path)

    def append(self, cycle: Cycle) -> None:
        """Add a cycle after those before it, whose lines stay as they are; a torn line goes."""
        kept = self._lines()[: cycle.cycle]
        if len(kept) < cycle.cycle:
            raise CorruptRunError(self.path, len(kept), "it is gone since the run began")
        write_whole(self.path, "".join(f"{line}\n" for line in [*kept, to_line(cycle)]))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from this run; the lock ends with its process, however that ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_name(f".{self.path.stem}.lock"), wait=False):
            yield

    def _lines(self) -> list[str]:
        return split_lines(read_utf8(self.path)) if self.path.exists() else []


def read_utf8(path: Path) -> str:
    """Text of a file that may be damaged."""
    return path.read_bytes().decode("utf-8", errors="replace")


def experiment_name(path: Path) -> str:
    """Name of the experiment at a path: its folder's, or its packed file's without the ending."""
    return path.resolve().name.removesuffix(PACKED)


def read_experiment(path: Path) -> dict[str, str]:
    """Read every file of an experiment, a folder or a packed file, and return their texts by path inside."""
    if path.is_dir():
        found = [path / "manifest.json", path / "previews.json", *path.glob("*/*.jsonl")]
        return {str(file.relative_to(path)): read_utf8(file) for file in sorted(found) if file.is_file()}
    if not path.is_file() or not path.name.endswith(PACKED):
        raise ValueError(
            f"{path} is not an experiment: pass a folder that `jostle run` wrote, such as runs/mnist, or a {PACKED} "
            "file of one"
        )
    try:
        with tarfile.open(path, "r:xz") as packed:
            return {
                # the first part is the experiment's name
                member.name.partition("/")[2]: file.read().decode("utf-8", errors="replace")
                for member in packed
                if member.isfile() and (file := packed.extractfile(member))
            }
    except (tarfile.TarError, lzma.LZMAError, EOFError) as wrong:
        raise ValueError(f"{path} cannot be read: {wrong}; fetch or pack it again") from None


def split_lines(text: str) -> list[str]:
    """Split the text of a run into its lines."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def seed_in(path: PurePath) -> int:
    """Seed in the name of a run's file, LABEL/SEED.jsonl."""
    if not path.stem.isdecimal():
        raise ValueError(f"{path} is not a run: its name must be a seed, such as 0.jsonl")
    return int(path.stem)


def parse_cycles(lines: Sequence[str], path: PurePath) -> list[Cycle]:
    """Cycles of a run's lines; a torn last line is ignored, anything else that is wrong raises CorruptRunError."""
    cycles: list[Cycle] = []
    known: set[int] = set()
    for place, line in enumerate(lines):
        try:
            cycle = from_line(line, place)
            if cycle is None and place < len(lines) - 1:  # a killed process tears the last line only
                raise ValueError(f"it is no cycle of a run: {line[:40]!r}")
            if cycle is not None:
                check_in_order(cycle, place, cycles[-1].labeled if cycles else 0, known)
                cycles.append(cycle)
        except ValueError as wrong:
            raise CorruptRunError(path, place, str(wrong)) from None
    return cycles


def check_in_order(cycle: Cycle, place: int, labeled: int, known: set[int]) -> None:
    """Refuse a cycle that cannot follow in its run: the next number, counts that add up, every id labeled once.

    Args:
        cycle: The cycle.
        place: Its place in the run.
        labeled: Examples labeled before it.
        known: Ids of these; those of the cycle are added.
    """
    if cycle.cycle != place:
        raise ValueError(f"it is cycle {cycle.cycle}, where {place} is due")
    fresh = {example for example in cycle.picked if example >= 0} - known
    if len(fresh) < len(cycle.picked):
        raise ValueError("it labels an example twice, or one with a negative id")
    known |= fresh
    if cycle.labeled <= labeled or (known and cycle.labeled != len(known)):
        said = f"{cycle.labeled} labeled examples after {labeled}, with {len(cycle.picked)} new ones"
        raise ValueError(f"its counts do not add up: {said}")


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


MANIFEST_FILE = "manifest.json"


class ManifestError(ValueError):
    """A manifest that cannot be read."""


class ChangedError(ManifestError):
    """A folder holds runs of another protocol, or of other data."""


FIELDS: dict[str, type] = {
    **dict.fromkeys(("protocol", "data", "files", "versions", "hardware"), dict),
    **dict.fromkeys(("command", "earlier_commands"), list),
}
FREE = frozenset({"name", "title", "seeds", "strategies"})  # of a protocol: what changes no number of a run


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot hold runs: a file, one that cannot be written, or one of other things."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    if not there.is_dir():
        raise ValueError(f"--out-dir {folder}: {there} is a file; name a folder for the runs")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"--out-dir {folder}: no permission to write into {there}")
    if there == folder and read_manifest(folder) is None:
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if others:
            raise ValueError(
                f"--out-dir {folder} is not empty ({others[0]}) and has no manifest.json, so it is not a folder of "
                "jostle run; name a new folder"
            )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder, or extend the one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".manifest.lock", wait=True):
        merged = agreed_manifest(folder, manifest)
        if merged != read_manifest(folder):
            write_whole(folder / MANIFEST_FILE, json.dumps(merged, indent=1) + "\n")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder, None where there is none."""
    path = folder / MANIFEST_FILE
    return parse_manifest(read_utf8(path), path) if path.exists() else None


def parse_manifest(text: str, path: Path) -> dict[str, Any]:
    """Manifest in the text of a file, with strategies under their current names; the path is for messages."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ManifestError(f"{path} is not JSON: {wrong}; use a different folder with --out-dir") from None
    if not isinstance(manifest, dict):
        raise ManifestError(f"{path} holds {type(manifest).__name__}, expected an object")
    for field, kind in FIELDS.items():
        if not isinstance(manifest.get(field, kind()), kind):
            raise ManifestError(f"{path}: {field} is {manifest[field]!r}, expected {kind.__name__}")
    protocol = manifest.get("protocol", {})
    if isinstance(protocol.get("strategies"), Mapping):
        protocol["strategies"] = rename_strategies(protocol["strategies"])
    return manifest


def agreed_manifest(folder: Path, new: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of what is in the folder and of what is to come; another protocol or data are refused."""
    old = read_manifest(folder)
    if old is None:
        return dict(new)
    changes = [*differences(old, new), *changed_files(folder, old, new)]
    if changes:
        shown = "\n".join(f"  {field}: {was!r} -> {now!r}" for field, was, now in changes)
        raise ChangedError(
            f"{folder} holds runs that differ from what was asked for now:\n{shown}\n"
            "Use the same settings and files to resume these runs, or pass a different folder with --out-dir"
        )
    protocol = new["protocol"]
    strategies = {**old.get("protocol", {}).get("strategies", {}), **protocol["strategies"]}
    merged = {**new, "protocol": {**protocol, "strategies": strategies}}
    if files := {**old.get("files", {}), **new.get("files", {})}:
        merged["files"] = files
    earlier: list[Any] = []
    for command in [*old.get("earlier_commands", ()), old.get("command", [])]:
        if command and command not in (*earlier, new["command"]):
            earlier.append(command)
    return {**merged, "earlier_commands": earlier} if earlier else merged


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Fields whose values would give other numbers, each with what it was and what it is."""
    found: list[tuple[str, Any, Any]] = []
    for part, prefix in (("protocol", ""), ("data", "data.")):
        was, now = (
            flat_fields({key: value for key, value in each.get(part, {}).items() if key not in FREE})
            for each in (old, new)
        )
        found += [(prefix + f, was.get(f), now.get(f)) for f in {**was, **now} if was.get(f) != now.get(f)]
    before, after = (dict(each.get("protocol", {}).get("strategies", {})) for each in (old, new))
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
        if was[field] != now[field] and _decided_numbers(folder, field)
    ]


def _decided_numbers(folder: Path, field: str) -> bool:
    """Whether runs of the folder were made with a file: a strategy's own, or one that all share."""
    owner = field.replace(":", " ").split(" ")[0]  # "strategies.mine: head (helper.py)" is of the label mine
    kind, _, label = owner.partition(".")
    return any(kind != "strategies" or path.parent.name == label for path in folder.glob("*/*.jsonl"))


def flat_fields(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, `training.epochs` and the like."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        found |= (
            flat_fields(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
        )
    return found
