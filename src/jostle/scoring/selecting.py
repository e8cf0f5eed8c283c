"""The part of a call in which picks are made: timed, and with a bar that counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jostle.plumbing.progress import Advance, Expected, noted
from jostle.scoring.request import Request


@contextmanager
def selecting(request: Request, steps: int, expected: Expected | None = None) -> Iterator[Advance]:
    """Yield `advance(steps)` of a bar; what selectors note inside goes to it too, and what comes at once at the end.

    Args:
        request: The call, which takes the time down.
        steps: Picks that are to be made, or whatever else is counted.
        expected: The seconds that all would take, for work that says nothing until it is done.
    """
    done = 0.0

    def count(some: float) -> None:
        nonlocal done
        done += some
        advance(some)

    with request.progress("selecting", steps, expected) as advance, noted(count), request.timed("selection"):
        yield count
        count(steps - done)
