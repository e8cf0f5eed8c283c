"""Names of jostle 0.2 in stored protocols, manifests and run folders, and the names that replaced them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    """Rename settings in words such as `deviations(jolts=10)`, a part of a composed strategy."""
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
