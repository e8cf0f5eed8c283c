"""A protocol that runs in a second, for tests of all that surrounds the runs."""

from pathlib import Path

from jostle.runs import protocol
from jostle.runs.protocol import Protocol

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
jolts = 3
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
