"""How many examples went through a model: what a strategy costs, whatever the machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Tally:
    """Count of forward passes of examples: one for each perturbation, dropout mask or committee member."""

    examples: int = 0


_tally: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count the examples that go through networks while this lasts."""
    tally = Tally()
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def note(examples: int) -> None:
    """These went through."""
    tally = _tally.get()
    if tally is not None:
        tally.examples += examples
