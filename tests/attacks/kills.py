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
from attacks.driver import check

KILLS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
WORDS = "run tiny.toml --set rounds=3 --seeds 1 --strategies random,margin --no-report --out-dir runs"


def undisturbed(folder: Path, words: str, why: str = "nobody disturbed it") -> str:
    """Run a command to its end, and return the numbers of its runs as JSON."""
    code, said = forge.run(words, folder)
    check(code == 0, f"{why}, and it ended with {code}: {said[-1500:]}")
    return json.dumps(numbers(folder / "runs"))


@cache
def whole() -> tuple[str, float]:
    """The numbers of a run that nobody disturbs, and how many seconds it takes."""
    with tempfile.TemporaryDirectory(prefix="jostle-whole-") as name:
        tiny_file(Path(name))
        forge.run("--help", Path(name))  # warms the forge
        start = time.monotonic()
        return undisturbed(Path(name), WORDS), time.monotonic() - start


def attack(chance: Random, folder: Path) -> str:
    """Kill it a few times, then let it end."""
    expected, seconds = whole()
    tiny_file(folder)
    deaths = sum(killed(chance, folder, seconds) for _ in range(chance.randint(1, 4)))
    found = undisturbed(folder, WORDS, f"it died {deaths} times")
    check(found == expected, f"after {deaths} kills the numbers are others")
    return f"same numbers after {deaths} deaths" if deaths else "was over before"


def killed(chance: Random, folder: Path, seconds: float) -> bool:
    """Cut one run short, and return whether it was."""
    command = forge.Command(WORDS + (" --jobs 2" if chance.random() < 0.1 else ""), folder)
    time.sleep(chance.uniform(0, seconds))
    how = chance.choice(KILLS)
    command.signal(how)
    if how == signal.SIGINT and chance.random() < 0.3:
        command.signal(how)  # an impatient user
    code = command.ended()
    allowed = (0, 130 if how == signal.SIGINT else -how)
    check(code in allowed, f"{how.name} ended it with {code}: {command.said}")
    return code != 0
