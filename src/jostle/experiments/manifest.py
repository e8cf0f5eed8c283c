"""The manifest of a folder of runs, and the names of jostle 0.2 in what is stored."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jostle.experiments.store import locked
from jostle.utils.files import write_whole

STRATEGIES = {"jolt-herding": "noise-herding"}
SETTINGS = {
    "jolts": "num_perturbations",
    "scale": "noise_scale",
    "grid": "spatial_grid",
    "start": "initial_centers",
    "project": "projection_dim",
    "keep": "candidates_per_pick",
    "rows_file": "cache_path",
}
REMOVED = ("race",)  # settings that changed no pick


def rename_label(label: str) -> str:
    """Current name of a strategy's label; a name that is still registered stays."""
    from jostle import strategies

    return label if label not in STRATEGIES or label in strategies.names() else STRATEGIES[label]


def rename_strategies(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Strategies of a protocol, label -> entry, with current labels, names and settings."""
    return {
        rename_label(label): _rename_entry(label, entry) if isinstance(entry, Mapping) else entry
        for label, entry in stored.items()
    }


def _rename_entry(label: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    renamed = dict(entry)
    if "use" in renamed:
        renamed["use"] = rename_label(str(renamed["use"]))
    takes = _settings(str(renamed.get("use", rename_label(label))))
    kept = {key: value for key, value in renamed.items() if key not in REMOVED or key in takes or not takes}
    return {_rename_setting(key, takes): _rename_in_spec(value) for key, value in kept.items()}


def _rename_in_spec(value: Any) -> Any:
    """Rename settings in words such as `deviations(grid=2)`, a part of a composed strategy."""
    if not isinstance(value, str) or "(" not in value:
        return value
    takes = _settings(value.partition("(")[0].strip())
    for old in SETTINGS:
        value = re.sub(rf"\b{old}(?=\s*=)", _rename_setting(old, takes), value)
    return value


def _settings(use: str) -> frozenset[str]:
    """Settings of a registered name; none of the user's own, whose words may mean different things."""
    from jostle import embeddings, selectors, strategies

    registries = (strategies, embeddings, selectors)
    found = next((each for each in registries if use in each.names()), None)
    return frozenset(found.describe(use).settings) if found else frozenset()


def _rename_setting(key: str, takes: frozenset[str]) -> str:
    new = SETTINGS.get(key)
    return new if new in takes and key not in takes else key


def rename_run_folders(folder: Path) -> None:
    """Rename the folders of strategies in a folder of runs, so that their runs are resumed."""
    for old in STRATEGIES:
        new = rename_label(old)
        if new != old and (folder / old).is_dir() and not (folder / new).exists():
            (folder / old).rename(folder / new)


MANIFEST_FILE = "manifest.json"


class ManifestError(ValueError):
    """A manifest that cannot be read."""


class ChangedError(ManifestError):
    """A folder holds runs of another protocol, or of other data."""


IDENTITY = ("protocol", "data")  # of a manifest: what may not change while runs are added
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
    try:
        text = (folder / MANIFEST_FILE).read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return parse_manifest(text, folder / MANIFEST_FILE)


def parse_manifest(text: str, path: Path) -> dict[str, Any]:
    """Manifest in the text of a file; the path is for messages."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ManifestError(f"{path} is not JSON: {wrong}; use a different folder with --out-dir") from None
    if not isinstance(manifest, dict):
        raise ManifestError(f"{path} holds {type(manifest).__name__}, expected an object")
    for field, kind in FIELDS.items():
        if not isinstance(manifest.get(field, kind()), kind):
            raise ManifestError(f"{path}: {field} is {manifest[field]!r}, expected {kind.__name__}")
    return _with_current_names(manifest)


def _with_current_names(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with strategies of jostle 0.2 under their current names."""
    protocol = manifest.get("protocol", {})
    if not isinstance(protocol.get("strategies"), Mapping):
        return manifest
    return {**manifest, "protocol": {**protocol, "strategies": rename_strategies(protocol["strategies"])}}


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
    strategies = {**old.get("protocol", {}).get("strategies", {}), **new["protocol"]["strategies"]}
    earlier = [*old.get("earlier_commands", ()), old.get("command", [])]
    kept = [command for place, command in enumerate(earlier) if command not in earlier[:place]]
    kept = [command for command in kept if command and command != new["command"]]
    merged = {**new, "protocol": {**new["protocol"], "strategies": strategies}}
    if files := {**old.get("files", {}), **new.get("files", {})}:
        merged["files"] = files
    return {**merged, "earlier_commands": kept} if kept else merged


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Fields whose values would give other numbers, each with what it was and what it is."""
    found: list[tuple[str, Any, Any]] = []
    for part in IDENTITY:
        was, now = flat_fields(comparable(old.get(part, {}))), flat_fields(comparable(new.get(part, {})))
        fields = [*was, *(field for field in now if field not in was)]
        prefix = "" if part == "protocol" else f"{part}."
        found += [(prefix + f, was.get(f), now.get(f)) for f in fields if was.get(f) != now.get(f)]
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


def comparable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that decide numbers."""
    return {key: value for key, value in fields.items() if key not in FREE}


def flat_fields(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, `training.epochs` and the like."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        found |= (
            flat_fields(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
        )
    return found
