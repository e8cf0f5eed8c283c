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
from attacks.driver import check
from attacks.kills import undisturbed

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
ROWS = np.random.default_rng(0).normal(size=(60, 2))
FILES = {
    "edited.toml": PROTOCOL,
    "own.py": OWN,
    "helper.py": "def first(one, other): return one\n",
    "rows.csv": "a,b,label\n" + "".join(f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\n" for a, b in ROWS),
}
EDITS = {"edited.toml": ("pick = 3", "pick = 4"), "own.py": ("(Margin, Random)", "(Random, Margin)"),
         "helper.py": ("return one", "return other"), "rows.csv": ("yes", "no")}  # fmt: skip
WORDS = "run edited.toml --no-report --out-dir runs"


def write(folder: Path) -> None:
    """A protocol with a strategy, a network and data that are the user's own."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


@cache
def whole() -> tuple[dict[str, list[object]], float]:
    """The numbers of runs whose files nobody edits, and how many seconds they take."""
    with tempfile.TemporaryDirectory(prefix="jostle-whole-") as name:
        write(Path(name))
        forge.run("--help", Path(name))  # warms the forge
        start = time.monotonic()
        return json.loads(undisturbed(Path(name), WORDS)), time.monotonic() - start


def attack(chance: Random, folder: Path) -> str:
    """Edit a file while the runs go on, put it back, and go on."""
    seconds = whole()[1]
    write(folder)
    command = forge.Command(WORDS + (" --jobs 2" if chance.random() < 0.1 else ""), folder)
    end = time.monotonic() + 20 * seconds
    while not (folder / "runs" / "manifest.json").exists() and time.monotonic() < end:
        time.sleep(0.001)  # until then nothing was read, and an edit would be no edit
    time.sleep(chance.uniform(0, seconds / 2))
    name, text = chance.choice(list(FILES.items()))
    half = text[: chance.randrange(len(text))]
    edited = text.replace(*EDITS[name], chance.randint(1, 20))
    replace(folder / name, half if chance.random() < 0.3 else edited)
    code = command.ended()
    check(code in (0, 1, 2), f"{name} was edited, and it ended with {code}: {command.said[-1500:]}")
    finished = done(folder, f"after {name} was edited")
    replace(folder / name, text)
    undisturbed(folder, WORDS, f"{name} was put back")
    check(
        done(folder, "once it was put back") == len(whole()[0]), f"{name} was put back, and runs are missing"
    )
    return "nobody noticed" if code == 0 and finished == len(whole()[0]) else "told with words"


def replace(path: Path, text: str) -> None:
    """As editors do: another file under the same name; its times tell nothing."""
    status = path.stat()
    other = path.with_suffix(".new")
    other.write_text(text, encoding="utf-8")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def done(folder: Path, when: str) -> int:
    """How many runs are whole; every line that is there must be the one that belongs there."""
    truth, found = whole()[0], json.loads(json.dumps(numbers(folder / "runs")))
    for run, lines in found.items():
        right = truth[run][: len(lines)]
        check(lines == right, f"{when}, {run} has other numbers: {lines}\nin place of {right}")
    return sum(len(lines) == len(truth[run]) for run, lines in found.items())
