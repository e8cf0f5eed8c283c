"""Interrupts inside a call, at any line of jostle or at any moment: model, pool and random states stay as they were."""

from __future__ import annotations

import ast
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from traceback import walk_stack
from types import FrameType
from typing import Any

from attacks.calls import SOURCE, Scene, everything_stays, scene
from attacks.driver import BrokenPromiseError, check

AGAIN = 1e-3  # seconds until an interrupt that came while things were put back comes again


@cache
def restoring(file: str) -> frozenset[int]:
    """Lines that put things back: an interrupt of these very lines is the one that no Python code can survive."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Try):
            for line in node.finalbody:
                found.update(range(line.lineno, (line.end_lineno or line.lineno) + 1))
    return frozenset(found)


def puts_back(frame: FrameType | None) -> bool:
    """Whether a frame runs such a line, or was called from one, through whatever libraries."""
    frames = (each for each, _ in walk_stack(frame) if each.f_code.co_filename.startswith(SOURCE))
    return any(each.f_lineno in restoring(each.f_code.co_filename) for each in frames)


class Lines:
    """Counts the lines of jostle that run, and interrupts at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.count = at, 0

    def enter(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return self.step if frame.f_code.co_filename.startswith(SOURCE) else None

    def step(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line" and not puts_back(frame):
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self.step

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self.enter)
        try:
            yield
        finally:
            sys.settrace(before)


@contextmanager
def after(seconds: float) -> Iterator[None]:
    """A Ctrl-C in so many seconds, wherever Python or a library is then; later, if that puts things back."""

    def ring(number: int, frame: FrameType | None) -> None:
        if not puts_back(frame):
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attack(chance: Random, folder: Path) -> str:
    """One call three times: whole, interrupted, and again."""
    made = workable(chance, folder)
    whole = undisturbed(made)
    compare = everything_stays(made)
    interrupted = at_a_line(made, chance) if chance.random() < 0.7 else at_a_moment(made, chance)
    compare(f"an interrupt at {interrupted}")
    same = made.call().indices.tolist() == whole
    check(same, f"after an interrupt at {interrupted} the picks are others\n{made}")
    return "nothing changed" if interrupted else "was over before"


def workable(chance: Random, folder: Path) -> Scene:
    """A call that must succeed."""
    while not (made := scene(chance, folder, must_work=True)).must_work:
        pass
    return made


def undisturbed(made: Scene) -> list[int]:
    """The picks of a call that must succeed."""
    try:
        return made.call().indices.tolist()
    except Exception as error:
        raise BrokenPromiseError(f"refused: {type(error).__name__}: {error}\n{made}") from None


def at_a_line(made: Scene, chance: Random) -> str:
    counting = Lines()
    with counting.watching():
        made.call()
    interrupting = Lines(chance.randint(1, counting.count))
    where = f"line {interrupting.at} of {counting.count}"
    try:
        with interrupting.watching():
            made.call()
    except KeyboardInterrupt:
        return where
    raise BrokenPromiseError(f"the interrupt at {where} was swallowed\n{made}")


def at_a_moment(made: Scene, chance: Random) -> str:
    seconds = chance.uniform(1e-4, 0.1)
    try:
        with after(seconds):
            made.call()
    except KeyboardInterrupt:
        return f"{seconds:.4f} s"
    return ""
