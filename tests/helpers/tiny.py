"""A protocol that runs in a second, for tests of all that surrounds the runs."""

from pathlib import Path

from jostle.experiments import protocol
from jostle.experiments.protocol import Protocol

TOML = """
title = "tiny"
dataset = "digits"
initial = 10
pick = 4
rounds = 3
candidates = 40
test = 60
seeds = 2

[model]
use = "digits-cnn"

[training]
epochs = 2
batch = 8
optimizer = "adam"
lr = 2e-3

[strategies.random]
[strategies.margin]
[strategies.noise-stability]
num_perturbations = 3
"""

# What a user's own file may hold: strategies, one of which raises, something that is none, and data.
OWN = """
import math, torch
from dataclasses import dataclass
from jostle.strategies import NoiseStability as Own_

class Own(Own_):
    ...

@dataclass(frozen=True, kw_only=True)
class Raising(Own_):
    def embedding(self, request):
        return {}["color"]

points = [1, 2]

def data(rows=40):
    x = torch.randn(rows, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = (x.mean((1, 2, 3)) > 0).long()
    return x[:-10], y[:-10], x[-10:], y[-10:]
"""


def tiny_file(folder: Path, more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.toml"
    path.write_text(TOML + more)
    return path


def tiny(folder: Path, *overrides: str) -> Protocol:
    return protocol.load(str(tiny_file(folder)), overrides)


def numbers(folder: Path) -> dict[str, list[dict[str, object]]]:
    """All runs without what may vary."""
    import json

    found = {}
    for path in sorted(folder.glob("*/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[f"{path.parent.name}/{path.stem}"] = [
            {
                key: value
                for key, value in line.items()
                if "seconds" not in key and "memory" not in key and key != "checksum"
            }
            for line in lines
        ]
    return found
