"""Calls from several threads at once, and forks in their midst: each gets the picks that it gets alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from random import Random
from unittest.mock import patch

from attacks.calls import Scene, everything_stays
from attacks.driver import BrokenPromiseError
from attacks.interrupts import undisturbed, workable
from jostle import rng

LONGEST = 600.0  # seconds that a forked child may take, however busy the machine is
BETWEEN = (
    60.0  # seconds that a fork waits for calls: beside longer ones locks of PyTorch's libraries may stay held
)


def attack(chance: Random, folder: Path) -> str:
    """Two or three calls alone, then together."""
    scenes = []
    for number in range(chance.randint(2, 3)):
        place = folder / str(number)
        place.mkdir()
        scenes.append(workable(chance, place))
    if chance.random() < 0.3:
        scenes[1] = scenes[0]  # one model and one pool for both
    expected = [undisturbed(each).indices.tolist() for each in scenes]
    checks = [everything_stays(each) for each in scenes]
    found: dict[int, list[int] | Exception] = {}
    threads = [threading.Thread(target=call, args=(each, i, found)) for i, each in enumerate(scenes)]
    for thread in threads:
        thread.start()
    forks = hasattr(os, "fork") and chance.random() < 0.5
    if forks:
        time.sleep(chance.uniform(0, 0.05))
        with patch.object(rng, "MOMENT", BETWEEN):
            forked(scenes[0], expected[0])
    for thread in threads:
        thread.join()
    for i, each in enumerate(scenes):
        if found[i] != expected[i]:
            raise BrokenPromiseError(
                f"beside other threads it gave {found[i]!r}, alone {expected[i]}\n{each}"
            )
        checks[i](f"{len(scenes)} threads")
    return "same picks, and in a fork" if forks else "same picks"


def call(scene: Scene, number: int, found: dict[int, list[int] | Exception]) -> None:
    try:
        found[number] = scene.call().indices.tolist()
    except Exception as error:
        found[number] = error


def forked(scene: Scene, expected: list[int]) -> None:
    """A child process, born while threads select, selects too."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if scene.call().indices.tolist() == expected else 3
        finally:
            os._exit(code)
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            if status:
                raise BrokenPromiseError(
                    f"a forked child ended with {os.waitstatus_to_exitcode(status)}\n{scene}"
                )
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise BrokenPromiseError(f"a forked child waits for ever\n{scene}")
