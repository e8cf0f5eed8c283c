"""How things are timed here: repetitions interleaved, the best of each, never a bare second."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict


class Figure(TypedDict):
    what: str
    ratio: float
    against: str
    target: str
    ok: bool


def best_seconds(
    repetitions: int, *, clock: Callable[[], float] = time.perf_counter, **works: Callable[[], Any]
) -> dict[str, float]:
    """The least time of each work, repetitions interleaved so that load falls on all alike.

    Works on one thread may be timed by `time.process_time`, which leaves out what other processes take.
    """
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repetitions):
        for name, work in works.items():
            start = clock()
            work()
            best[name] = min(best[name], clock() - start)
    return best


def figure(
    what: str, ratio: float, against: str, *, at_least: float = 0, at_most: float = float("inf")
) -> Figure:
    """A ratio beside its target."""
    target = f">= {at_least:g}" if at_least else f"<= {at_most:g}"
    return Figure(what=what, ratio=ratio, against=against, target=target, ok=at_least <= ratio <= at_most)


def status(field: str, process: int | str = "self") -> int:
    """Bytes that a process holds (VmRSS) or held at most (VmHWM); getrusage's figure would survive from its parent."""
    words = Path(f"/proc/{process}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", words)[1]) * 1024  # type: ignore[index]


def peak_bytes(process: int | str = "self") -> int:
    """The largest resident size of a process so far."""
    return status("VmHWM", process)


def in_fresh_process(module: str, *arguments: str) -> str:
    """What a module prints when run alone: memory peaks of one process do not mix."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    ).stdout
