"""`make bench`: every figure as a table, and as JSON in benchmarks/results/bench.json."""

import argparse
import json
import platform
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import engine, memory, selection, training
from benchmarks.measure import Figure

SECTIONS = {
    "k-center": selection.k_center_ratios,
    "coreset": selection.coreset_ratios,
    "badge": selection.badge_ratios,
    "herding": selection.herding_ratios,
    "deviations": engine.deviations,
    "memory": engine.memory,
    "memory-registry": memory.registry_ratios,
    "memory-large": memory.large_ratios,
    "training": training.training_ratios,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("sections", nargs="*", help=f"of: {', '.join(SECTIONS)}; by default all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/bench.json"))
    arguments = parser.parse_args()
    figures: list[Figure] = []
    for name in arguments.sections or SECTIONS:
        measured = SECTIONS[name]()
        show(measured)
        figures += measured
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"torch": torch.__version__, "threads": torch.get_num_threads(), "machine": platform.machine()}
    arguments.out.write_text(json.dumps(record | {"figures": figures}, indent=1))
    Console().print(
        f"{sum(not f['ok'] for f in figures)} of {len(figures)} missed their target; {arguments.out}"
    )


def show(figures: list[Figure]) -> None:
    table = Table("what", "ratio", "against", "target", "ok")
    for f in figures:
        table.add_row(f["what"], f"{f['ratio']:.3g}", f["against"], f["target"], "yes" if f["ok"] else "NO")
    Console().print(table)


if __name__ == "__main__":
    main()
