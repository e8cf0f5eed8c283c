"""Runs killed or interrupted at random moments, then gone on with: the same numbers as without."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from functools import cache
from pathlib import Path
from random import Random

from tiny import numbers, tiny_file

from attacks import forge
from attacks.driver import BrokenPromiseError

KILLS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
SETTINGS = ["--set", "rounds=3", "--seeds", "1", "--strategies", "random,margin", "--no-report"]


def words(folder: Path) -> list[str]:
    return ["run", str(tiny_file(folder)), *SETTINGS, "--out-dir", str(folder / "runs")]


@cache
def whole() -> tuple[str, float]:
    """The numbers of a run that nobody disturbs, as JSON, and how long it takes."""
    for _ in range(2):  # the first one finds the forge cold
        with tempfile.TemporaryDirectory(prefix="jostle-whole-") as name:
            start = time.monotonic()
            code, said = forge.run(words(Path(name)), Path(name))
            if code:
                raise BrokenPromiseError(f"a run that nobody disturbed ended with {code}: {said}")
            found = json.dumps(numbers(Path(name) / "runs")), time.monotonic() - start
    return found


def attack(chance: Random, folder: Path) -> str:
    """Kill it a few times, then let it end."""
    expected, seconds = whole()
    deaths = 0
    for _ in range(chance.randint(1, 4)):
        deaths += killed(chance, folder, seconds)
    code, said = forge.run(words(folder), folder)
    if code:
        raise BrokenPromiseError(f"after {deaths} kills it ended with {code}: {said}")
    if json.dumps(numbers(folder / "runs")) != expected:
        raise BrokenPromiseError(f"after {deaths} kills the numbers are others")
    return f"same numbers after {deaths} deaths" if deaths else "was over before"


def killed(chance: Random, folder: Path, seconds: float) -> bool:
    """One run cut short, and whether it was."""
    crew = ["--jobs", "2"] if chance.random() < 0.1 else []
    command = forge.start(words(folder) + crew, folder)
    time.sleep(chance.uniform(0, seconds))
    how = chance.choice(KILLS)
    command.signal(how)
    if how == signal.SIGINT and chance.random() < 0.3:
        command.signal(how)  # an impatient user
    code = command.ended()
    allowed = {0, 130} if how == signal.SIGINT else {0, -how}
    if code not in allowed:
        raise BrokenPromiseError(f"{how.name} ended it with {code}: {command.said}")
    return code != 0
