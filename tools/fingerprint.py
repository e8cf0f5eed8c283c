"""Hashes of picks and rows of the whole catalog: run it before and after a change that should move nothing.

`python -m tools.fingerprint before.json`, change, `python -m tools.fingerprint after.json before.json`.
Last digits differ between machines, so compare files of one machine. Keys name cases, not settings: they survive a
renaming. `tools/fingerprint_paths.py` adds the paths that a pool of 60 examples in memory never takes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle import strategies
from jostle.tasks import TASKS
from tools.fingerprint_paths import paths

POOL, LABELED, PICKS, CLASSES = 60, 18, 9, 4
QUICK: dict[str, dict[str, Any]] = {"vaal": {"steps": 4}, "sraal": {"steps": 4}}
KEYS = {"noise-herding": "jolt-herding"}  # earlier names, under which files of hashes know these
VARIANTS: dict[str, dict[str, Any]] = {
    '{"space": "logits"}': {"space": "logits"},
    '{"estimator": "jvp"}': {"estimator": "jvp"},
    '{"noise": "layerwise"}': {"noise": "layerwise"},
    '{"project": 8}': {"projection_dim": 8},
    '{"start": "labeled"}': {"initial_centers": "labeled"},
}
SELECTORS = ("k-center", "k-center-unit", "k-means++", "k-dpp", "longest", "uniform", "lcmd", "typical")


def scene(task: str) -> tuple[nn.Module, Tensor, TensorDataset]:
    """A model with every kind of layer, a pool and a labeled set."""
    rng = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    drop, norm = nn.Dropout(0.3), nn.BatchNorm2d(6)
    if task == "regression":
        model: nn.Module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), drop, nn.Linear(16, 1))
        shape: tuple[int, ...] = (6,)
        targets = torch.randn(LABELED, 1, generator=rng)
    elif task == "segmentation":
        model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), norm, nn.ReLU(), drop, nn.Conv2d(6, CLASSES, 1))
        shape = (3, 8, 8)
        targets = torch.randint(0, CLASSES, (LABELED, 8, 8), generator=rng)
    elif task == "sequence":
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), drop, nn.Linear(16, CLASSES))
        shape = (5, 6)
        targets = torch.randint(0, CLASSES, (LABELED, 5), generator=rng)
    else:
        body = (nn.Conv2d(1, 6, 3), norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), drop)
        model = nn.Sequential(*body, nn.Linear(54, 1 if task == "binary" else CLASSES))
        shape = (1, 8, 8)
        targets = torch.arange(LABELED) % (2 if task == "binary" else CLASSES)
        if task == "multi-label":
            targets = torch.randint(0, 2, (LABELED, CLASSES), generator=rng).float()
    pool = torch.randn(POOL, *shape, generator=rng)
    return model, pool, TensorDataset(torch.randn(LABELED, *shape, generator=rng), targets)


def digest(value: Any) -> str:
    """A short hash of the very bytes of rows, factors, positions or text."""
    if isinstance(value, str):
        return hashlib.sha256(value.encode()).hexdigest()[:16]
    parts = [value] if isinstance(value, Tensor) else [value.left, value.right]
    whole = b"".join(str(p.dtype).encode() + p.detach().cpu().contiguous().numpy().tobytes() for p in parts)
    return hashlib.sha256(whole).hexdigest()[:16]


def outcome(call: Any) -> str:
    """A hash, or the words of the refusal."""
    try:
        return digest(call())
    except (ValueError, TypeError, NotImplementedError) as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def fingerprints() -> dict[str, str]:
    """Strategy, task and setting -> hash."""
    found: dict[str, str] = {}
    for task in TASKS:
        model, pool, labeled = scene(task)

        def fit(dataset: Any, seed: int, task: str = task) -> nn.Module:
            fresh = scene(task)[0]
            torch.manual_seed(seed)
            return fresh.apply(redrawn)

        for name in strategies.names():
            settings = {json.dumps(QUICK.get(name, {})): QUICK.get(name, {})}
            if name == "noise-stability":
                settings |= {json.dumps({"selector": s}): {"selector": s} for s in SELECTORS} | VARIANTS
            for key, each in settings.items():
                case = f"{task} {KEYS.get(name, name)} {key}"
                found |= of_strategy(case, name, each, model, pool, labeled, task, fit)
    return found | {key: outcome(call) for key, call in paths()}


def redrawn(module: nn.Module) -> None:
    """Draw a layer's weights anew."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        module.reset_parameters()


def of_strategy(
    key: str,
    name: str,
    settings: dict[str, Any],
    model: nn.Module,
    pool: Tensor,
    labeled: Any,
    task: str,
    fit: Any,
) -> dict[str, str]:
    """Picks with their scores, and rows, of one strategy."""
    try:
        strategy = strategies.build(name, **settings)
        trained = strategy.join(model, pool[:2], 0).model.eval()
    except (ValueError, TypeError) as refusal:
        return {f"{key} build": str(refusal)}
    call: dict[str, Any] = {"labeled": labeled, "fit": fit, "task": task, "seed": 3}

    def picks() -> Tensor:
        query = strategy.select(trained, pool, PICKS, **call)
        return torch.cat([torch.from_numpy(query.indices).double(), torch.from_numpy(query.scores)])

    return {
        f"{key} picks": outcome(picks),
        f"{key} rows": outcome(lambda: strategy.embed(trained, pool, **call)),
    }


def main() -> int:
    """Write the hashes, and say what differs from an earlier file."""
    torch.set_num_threads(1)
    new = fingerprints()
    Path(sys.argv[1]).write_text(json.dumps(new, indent=1) + "\n")
    if len(sys.argv) < 3:
        return 0
    old = json.loads(Path(sys.argv[2]).read_text())
    changed = [key for key in old if old[key] != new.get(key)]
    for key in changed:
        print(f"{key}: {old[key]} -> {new.get(key)}")
    print(f"{len(changed)} of {len(old)} differ")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
