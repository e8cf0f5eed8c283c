"""What the arena's runs say, as `jostle advise` reads it.

    python -m tools.arena src/jostle/advice/arena.json results/{arena,regression,confirm}-*.tar.xz

writes the file from packed experiments, or from folders of runs. Facts of settings that the file has already are kept:
only data of new settings is read.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jostle import datasets, strategies
from jostle.experiments.across import Across, clear_sign
from jostle.experiments.comparison import load_all
from jostle.experiments.results import Floats, Results
from jostle.experiments.statistics import times
from jostle.experiments.store import experiment_name
from jostle.strategies.default import default_for
from jostle.utils.files import write_whole
from tools import confirmation

DIGITS = 4
IMBALANCED = ("arena-segment0", "arena-page-blocks", "arena-letter-rare")
FROZEN = ("arena-photos", "arena-reviews")  # by a hidden layer
CONFIRMED = {  # data of the confirmation that benchmarks/default-confirmation-code.tar.xz makes: train, classes
    "mnist-probe": (2250, 10), "mnist-hidden": (2250, 10), "mrpc-probe": (2250, 2), "mrpc-hidden": (2250, 2),
    "small-mnist": (7500, 10),
}  # fmt: skip


def settings(across: Across, known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every folder as a setting; `known` has the settings of which facts need not be read again."""
    gains = {label: across.gains(label) for label in across.labels}
    saved = {label: across.savings(label) for label in across.labels}
    made = []
    for name, results in across.runs.items():
        passes = {each.label: each.passes for each in times(results)}
        seen = {
            label: {
                "gain": round(gains[label][name], DIGITS),
                "error": round(standard_error(across.seed_gains(name, label)), DIGITS),
                "saved": round(saved[label][name], DIGITS),
                "seeds": len(across.leads(name, label, across.baseline)),
                "clear": clear_sign(across.leads(name, label, across.baseline)),
                "passes": None if math.isnan(passes[label]) else round(passes[label], 2),
            }
            for label in results.labels
            if label != across.baseline and name in gains[label]
        }
        told = {key: value for key, value in known.get(name, {}).items() if key != "seen"}
        told = {**(told or facts(name, results)), "kind": kind_of(name, results)}
        made.append({**told, "seen": named_strategies(name, seen, told["task"])})
    return made


def standard_error(gains: Floats) -> float:
    """The standard error of a mean over seeds; 0 for a single one, of which nothing is known."""
    return float(gains.std(ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else 0.0


def kind_of(name: str, results: Results) -> str:
    """The kind of data of a setting, as `jostle.advice.arena` has it."""
    if name.startswith("confirm-"):
        own = name.removeprefix("confirm-")
        return next(kind for kind, names in confirmation.KINDS.items() if own in names)
    if "mae" in results.metrics:
        return "regressions"
    if name in IMBALANCED:
        return "imbalanced tables"
    if name.startswith("arena-digits"):
        return "images, small network"
    return "embeddings, hidden layer" if name.startswith(FROZEN) else "tables"


def named_strategies(name: str, seen: dict[str, Any], task: str) -> dict[str, Any]:
    """Return what was seen by names of the registry, `default` among them."""
    if name.startswith("confirm-"):
        finalist = "linear-herding" if name.endswith("-probe") else "noise-herding"
        chosen = "typiclust" if task == "regression" else finalist
        found = {finalist if label == "finalist" else label: each for label, each in seen.items()}
        found = {"default": found[chosen], **found}
    else:
        found = with_the_default(seen, task)
    return {label: each for label, each in found.items() if label in strategies.names()}


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
    own_name = name.removeprefix("confirm-")
    if own_name in CONFIRMED:
        size, classes = CONFIRMED[own_name]
        return about(name, protocol, "classification", classes, size)
    use, own = protocol["dataset"]["use"], {k: v for k, v in protocol["dataset"].items() if k != "use"}
    data = datasets.named(use, None, own)
    return about(name, protocol, str(data.task), max(1, len(data.classes)), len(data.train))


def about(name: str, protocol: Mapping[str, Any], task: str, classes: int, size: int) -> dict[str, Any]:
    """The facts of a setting with `size` examples to learn from."""
    return {
        "name": name,
        "title": protocol["title"].removeprefix("Arena: "),
        "task": task,
        "classes": classes,
        "pool": size - protocol["initial"],
        "labels": protocol["initial"],
        "pick": protocol["pick"],
    }


def main(arguments: Sequence[str]) -> None:
    """Write the first path from the folders that follow."""
    out, *folders = arguments
    paths = sorted((Path(folder) for folder in folders), key=experiment_name)
    runs = load_all(paths)
    metrics = {
        name: "macro_f1"
        if name.startswith("confirm-") and kind_of(name, each) == "imbalanced tables"
        else each.metric(None)
        for name, each in runs.items()
    }
    known = json.loads(Path(out).read_text(encoding="utf-8")) if Path(out).is_file() else []
    found = settings(Across(runs, metrics), {each["name"]: each for each in known})
    write_whole(Path(out), json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
