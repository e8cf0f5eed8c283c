"""`python -m benchmarks.memory`: peak memory of every strategy at two sizes of the pool, beside what its plan promises.

Each is measured in a process of its own, forked from one that has loaded everything: what it holds at most, less what
it held before, over `plan.peak`. A strategy that has no memory for a pool says so before the work; that counts as kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import jostle
from benchmarks.measure import Figure, figure, status
from jostle import strategies

SIZES = (3_000, 12_000)
ALLOWED = 2 * 10**9  # bytes, for every strategy
WARM = 200  # examples of a first call
PICKS, KNOWN, WIDTH, CLASSES = 10, 50, 256, 10
BASE = 8 * 10**6  # bytes by which any process grows
QUICK: dict[str, dict[str, Any]] = {
    "vaal": {"steps": 2}, "sraal": {"steps": 2}, "lcmd": {"sketch": 32}, "bald": {"passes": 5},
    "entropy-dropout": {"passes": 5}, "batch-bald": {"passes": 10}, "core-gcn": {"epochs": 3},
    "uncertain-gcn": {"epochs": 3},
}  # fmt: skip


def network(outputs: int = CLASSES) -> nn.Sequential:
    """Images of 8 x 8 pixels in, ten classes out, or numbers, with dropout for those who want it."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, outputs)
    )


def forked(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a work says when it is done in a process of its own."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(write, json.dumps(work()).encode())
        except Exception as error:
            os.write(write, json.dumps({"refused": str(error)}).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return dict(json.loads(told))


def small(strategy: strategies.Strategy, size: int, picks: int = PICKS) -> dict[str, Any]:
    """Promised and real bytes of one call."""
    numbers = strategies.describe(strategy.name).tasks == ("regression",)
    outputs = 1 if numbers else CLASSES
    untrained, pool = network(outputs), torch.randn(size, 1, 8, 8)  # the same in every run: `network` seeds
    targets = torch.randn(KNOWN, 1) if numbers else torch.arange(KNOWN) % CLASSES
    labeled = TensorDataset(torch.randn(KNOWN, 1, 8, 8), targets)
    model = strategy.join(untrained, pool[:2], 0).model
    call: dict[str, Any] = {"labeled": labeled, "fit": lambda data, seed: network(outputs), "seed": 0}
    call["progress"] = False
    plan = strategy.plan(model, pool, picks, **call)
    strategy.select(model, pool[:WARM], picks, **call)  # what is loaded and set up once counts for no call
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = status("VmRSS")
    strategy.select(model, pool, picks, **call)
    return {"told": plan.peak, "real": status("VmHWM") - before}


def registry_ratios() -> list[Figure]:
    """Every strategy of the registry at two sizes of the pool."""
    return list(each_strategy(strategies.names()))


def each_strategy(names: Sequence[str]) -> Iterator[Figure]:
    """One figure after the other."""
    torch.set_num_threads(1)
    for name in names:
        for size, told in zip(SIZES, measured(name), strict=True):
            yield as_figure(f"{name}, {size:,} examples", told)


def measured(name: str) -> Iterator[dict[str, Any]]:
    """What a strategy promises and holds at each size."""
    strategy = strategies.build(name, memory_bytes=ALLOWED, **QUICK.get(name, {}))
    for size in SIZES:
        yield forked(partial(small, strategy, size))


def as_row(name: str, told: Sequence[dict[str, Any]]) -> str:
    """A line of the table in docs/research/speed.md: promised and held MB at each size."""
    cells = (
        ("refused", "") if "refused" in each else (f"{each['told'] / 1e6:.0f}", f"{each['real'] / 1e6:.0f}")
        for each in told
    )
    return " | ".join([f"| `{name}`", *(cell for pair in cells for cell in pair)]) + " |"


def as_figure(what: str, told: dict[str, Any]) -> Figure:
    """Real over promised bytes; a refusal is a promise kept."""
    if "refused" in told:
        needed = re.search(r"need ([\d,]+) bytes", told["refused"])
        return figure(f"{what}: refused", 0.0, f"{needed[1] if needed else '?'} bytes", at_most=1.25)
    against = f"{told['told'] / 1e6:.1f} MB promised, {told['real'] / 1e6:.1f} MB held"
    return figure(what, max(0, told["real"] - BASE) / told["told"], against, at_most=1.25)


def large_ratios() -> list[Figure]:
    """Noise stability on many examples of 128 numbers: rows projected, in a temporary file, in one of the user's."""
    torch.set_num_threads(1)
    size = 1_000_000
    model, pool = nn.Linear(128, CLASSES), torch.randn(size, 128)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, dict[str, Any]] = {
            "projected to 20": {"projection_dim": 20},
            "in a temporary file": {"memory_bytes": size * 200},
            "in a file of the user's": {"cache_path": Path(folder) / "rows.npy"},
        }
        for words, settings in ways.items():
            strategy = jostle.NoiseStability(num_perturbations=4, **settings)
            told = forked(partial(large, strategy, model, pool))
            found.append(as_figure(f"noise-stability, {size:,} x 128, rows {words}", told))
    return found


def large(strategy: strategies.Strategy, model: nn.Module, pool: torch.Tensor) -> dict[str, Any]:
    """Promised and real bytes for a pool that is there already."""
    plan = strategy.plan(model, pool, 20, seed=0, progress=False)
    strategies.build("noise-stability", num_perturbations=2).select(
        model, pool[:WARM], 20, seed=0, progress=False
    )
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    strategy.select(model, pool, 20, seed=0, progress=False)
    return {"told": plan.peak, "real": status("VmHWM") - before}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="strategies; all by default")
    parser.add_argument("--large", action="store_true", help="noise stability on a million examples only")
    parser.add_argument(
        "--table", action="store_true", help="as lines of the table in docs/research/speed.md"
    )
    chosen = parser.parse_args()
    if chosen.table:
        torch.set_num_threads(1)
        for name in chosen.names or strategies.names():
            print(as_row(name, list(measured(name))), flush=True)
        raise SystemExit
    figures = large_ratios() if chosen.large else each_strategy(chosen.names or strategies.names())
    for each in figures:
        verdict = "ok" if each["ok"] else "MISSED"
        print(f"{each['ratio']:6.2f}  {verdict:6} {each['what']} | {each['against']}", flush=True)
