"""What the arena's runs say, as `jostle advise` reads it.

    python -m tools.arena src/jostle/advice/arena.json results/arena-*.tar.xz results/regression-*.tar.xz

writes the file from packed experiments, or from folders of runs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jostle import datasets
from jostle.experiments.report.comparison import load_all
from jostle.experiments.results.across import Across, clear_sign
from jostle.experiments.results.curves import Results
from jostle.experiments.results.store import experiment_name
from jostle.experiments.results.summary import times
from jostle.strategies.default import default_for
from jostle.utils.files import write_whole

DIGITS = 4


def settings(across: Across) -> list[dict[str, Any]]:
    """Every folder as a setting."""
    gains = {label: across.gains(label) for label in across.labels}
    saved = {label: across.savings(label) for label in across.labels}
    made = []
    for name, results in across.runs.items():
        passes = {each.label: each.passes for each in times(results)}
        seen = {
            label: {
                "gain": round(gains[label][name], DIGITS),
                "saved": round(saved[label][name], DIGITS),
                "seeds": len(across.leads(name, label, across.baseline)),
                "clear": clear_sign(across.leads(name, label, across.baseline)),
                "passes": None if math.isnan(passes[label]) else round(passes[label], 2),
            }
            for label in results.labels
            if label != across.baseline and name in gains[label]
        }
        about = facts(name, results)
        made.append({**about, "seen": with_the_default(seen, about["task"])})
    return made


def with_the_default(seen: dict[str, Any], task: str) -> dict[str, Any]:
    """Return what was seen with the strategies that `default` stood for in 0.2, when these ran, and stands for now."""
    was = "flip-cover" if task == "regression" else "noise-herding"
    found = {was: seen["default"], **seen} if "default" in seen else dict(seen)
    found.pop("default", None)
    now = default_for(task)  # none of these models is linear
    return {"default": found[now], **found} if now in found else found


def facts(name: str, results: Results) -> dict[str, Any]:
    """What a setting is; its data is read again, since runs do not tell its size."""
    protocol = results.protocol
    use, own = protocol["dataset"]["use"], {k: v for k, v in protocol["dataset"].items() if k != "use"}
    data = datasets.named(use, None, own)
    return {
        "name": name,
        "title": protocol["title"].removeprefix("Arena: "),
        "task": data.task,
        "classes": max(1, len(data.classes)),
        "pool": len(data.train) - protocol["initial"],
        "labels": protocol["initial"],
        "pick": protocol["pick"],
    }


def main(arguments: Sequence[str]) -> None:
    """Write the first path from the folders that follow."""
    out, *folders = arguments
    paths = sorted((Path(folder) for folder in folders), key=experiment_name)
    across = Across.of(load_all(paths))
    write_whole(Path(out), json.dumps(settings(across), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
