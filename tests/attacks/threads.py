"""Calls from several threads at once, and forks in their midst: each gets the picks that it gets alone."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from unittest.mock import patch

from attacks.calls import Scene, everything_stays
from attacks.driver import check
from attacks.interrupts import undisturbed, workable
from jostle import rng

LONGEST = 600.0  # seconds that a forked child may take, however busy the machine is
BETWEEN = 60.0  # seconds that a fork waits for calls: beside longer ones libraries' locks may stay held


def attack(chance: Random, folder: Path) -> str:
    """Two or three calls alone, then together."""
    scenes = []
    for number in range(chance.randint(2, 3)):
        place = folder / str(number)
        place.mkdir()
        scenes.append(workable(chance, place))
    if chance.random() < 0.3:
        scenes[1] = scenes[0]  # one model and one pool for both
    expected = [undisturbed(each) for each in scenes]
    checks = [everything_stays(each) for each in scenes]
    forks = hasattr(os, "fork") and chance.random() < 0.5
    with ThreadPoolExecutor(len(scenes)) as threads:
        found = [threads.submit(undisturbed, each) for each in scenes]
        if forks:
            time.sleep(chance.uniform(0, 0.05))
            with patch.object(rng, "MOMENT", BETWEEN):
                forked(scenes[0], expected[0])
    for own, alone, each, compare in zip(found, expected, scenes, checks, strict=True):
        check(own.result() == alone, f"beside other threads it gave {own.result()}, alone {alone}\n{each}")
        compare(f"{len(scenes)} threads")
    return "same picks, and in a fork" if forks else "same picks"


def forked(scene: Scene, expected: list[int]) -> None:
    """A child process, born while threads select, selects too."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if undisturbed(scene) == expected else 3
        finally:
            os._exit(code)
    end = time.monotonic() + LONGEST
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    check(ended[0] == child, f"a forked child waits for ever\n{scene}")
    check(ended[1] == 0, f"a forked child ended with {os.waitstatus_to_exitcode(ended[1])}\n{scene}")
