"""Folders of runs with values that a test chose."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Curves = Mapping[str, Sequence[Sequence[float]]]  # label -> a curve for each seed


def lines(
    values: Sequence[float], metric: str = "accuracy", step: int = 20, **more: Any
) -> list[dict[str, Any]]:
    return [
        {
            "cycle": cycle,
            "labeled": step * (cycle + 1),
            "picked": list(range(cycle * step, (cycle + 1) * step)),
            "metrics": {metric: value},
            "train_seconds": 2.0,
            "select_seconds": 0.0 if cycle == 0 else 0.5 * cycle,
            "peak_memory_bytes": 2**20,
            **more,
        }
        for cycle, value in enumerate(values)
    ]


def write_run(folder: Path, label: str, seed: int, cycles: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / label / f"{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(cycle) + "\n" for cycle in cycles))
    return path


def write_runs(
    folder: Path,
    curves: Curves,
    metric: str = "accuracy",
    strategies: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    for label, seeds in curves.items():
        for seed, values in enumerate(seeds):
            write_run(folder, label, seed, lines(values, metric))
    manifest = {
        "protocol": {
            "name": folder.name,
            "strategies": strategies or {name: {"use": name} for name in curves},
            **more,
        },
        "data": {"digits": "sha256:00ff"},
        "versions": {"jostle": "0.1.0"},
        "hardware": {"cores": 2, "gpu": None},
        "command": ["jostle", "run", "digits", "--out", "a folder"],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


# Four strategies, three seeds, five points; noise-stability is ahead, entropy is behind.
FOUR: Curves = {
    "random": [
        [0.50, 0.60, 0.66, 0.71, 0.74],
        [0.52, 0.61, 0.68, 0.72, 0.75],
        [0.48, 0.58, 0.66, 0.70, 0.74],
    ],
    "noise-stability": [
        [0.50, 0.66, 0.74, 0.79, 0.82],
        [0.52, 0.68, 0.75, 0.80, 0.83],
        [0.48, 0.65, 0.73, 0.79, 0.82],
    ],
    "badge": [[0.50, 0.65, 0.73, 0.78, 0.81], [0.52, 0.66, 0.76, 0.79, 0.82], [0.48, 0.63, 0.71, 0.77, 0.80]],
    "entropy": [
        [0.50, 0.56, 0.62, 0.66, 0.70],
        [0.52, 0.57, 0.63, 0.69, 0.73],
        [0.48, 0.55, 0.62, 0.68, 0.71],
    ],
}
