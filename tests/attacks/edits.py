"""Code and data edited while runs are under way: numbers are those of the files as they were, or there are words."""

from __future__ import annotations

import json
import os
import tempfile
import time
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from tiny import numbers

from attacks import forge
from attacks.driver import BrokenPromiseError

PROTOCOL = """
title = "edited"
dataset = "csv:rows.csv(target=label)"
initial = 6
pick = 3
rounds = 2
seeds = 3

[model]
use = "own.py:network"

[training]
epochs = 1
batch = 8
optimizer = "sgd"
lr = 0.1

[strategies.random]
[strategies.own]
use = "own.py:Own"
"""
OWN = """
import torch
from helper import first
from jostle.strategies import Margin, Random

class Own(first(Margin, Random)):
    ...

def network(classes=2):
    return torch.nn.Linear(2, classes)
"""
HELPER = "def first(one, other): return one\n"
WORDS = ["run", "edited.toml", "--no-report", "--out-dir", "runs"]


def write(folder: Path) -> None:
    """A protocol with a strategy, a network and data that are the user's own."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in rng.normal(size=(60, 2))]
    texts = {"edited.toml": PROTOCOL, "own.py": OWN, "helper.py": HELPER}
    for name, text in {**texts, "rows.csv": "\n".join(["a,b,label", *rows, ""])}.items():
        (folder / name).write_text(text, encoding="utf-8")


@cache
def whole() -> tuple[str, float]:
    """The numbers of runs whose files nobody edits, as JSON, and how long they take."""
    for _ in range(2):  # the first one finds the forge cold
        with tempfile.TemporaryDirectory(prefix="jostle-whole-") as name:
            write(Path(name))
            start = time.monotonic()
            code, said = forge.run(WORDS, Path(name))
            if code:
                raise BrokenPromiseError(f"runs that nobody disturbed ended with {code}: {said}")
            found = json.dumps(numbers(Path(name) / "runs")), time.monotonic() - start
    return found


def attack(chance: Random, folder: Path) -> str:
    """Edit a file while the runs go on, put it back, and go on."""
    expected, seconds = whole()
    write(folder)
    command = forge.start([*WORDS, *(["--jobs", "2"] if chance.random() < 0.1 else [])], folder)
    wait_for(folder / "runs" / "manifest.json", seconds)
    time.sleep(chance.uniform(0, seconds / 2))
    path = folder / chance.choice(["own.py", "helper.py", "rows.csv", "edited.toml"])
    before = path.read_text(encoding="utf-8")
    replace(path, edited(chance, path.name, before))
    code = command.ended()
    if code not in (0, 1, 2):
        raise BrokenPromiseError(f"{path.name} was edited, and it ended with {code}: {command.said[-1500:]}")
    finished = done(folder, expected, f"after {path.name} was edited")
    replace(path, before)
    again, said = forge.run(WORDS, folder)
    if again or done(folder, expected, "once it was put back") < 6:
        raise BrokenPromiseError(f"{path.name} was put back, and it ended with {again}: {said[-1500:]}")
    return "nobody noticed" if code == 0 and finished == 6 else "told with words"


def wait_for(path: Path, seconds: float) -> None:
    """Until then nothing was read, and an edit would be no edit."""
    end = time.monotonic() + 20 * seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.001)


def edited(chance: Random, name: str, text: str) -> str:
    """The same file with other contents, whole or half written."""
    if chance.random() < 0.3:
        return text[: chance.randrange(len(text))]
    return {
        "own.py": text.replace("(Margin, Random)", "(Random, Margin)"),
        "helper.py": text.replace("return one", "return other"),
        "rows.csv": text.replace("yes", "no", chance.randint(1, 20)),
        "edited.toml": text.replace("pick = 3", "pick = 4"),
    }[name]


def replace(path: Path, text: str) -> None:
    """As editors do: another file under the same name; its times tell nothing."""
    status = path.stat()
    other = path.with_suffix(".new")
    other.write_text(text, encoding="utf-8")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def done(folder: Path, expected: str, when: str) -> int:
    """How many runs are whole; every line that is there must be the one that belongs there."""
    truth, found = json.loads(expected), json.loads(json.dumps(numbers(folder / "runs")))
    for run, lines in found.items():
        if lines != truth[run][: len(lines)]:
            raise BrokenPromiseError(f"{when}, {run} has other numbers: {lines}\nin place of {truth[run]}")
    return sum(len(lines) == len(truth[run]) for run, lines in found.items())
