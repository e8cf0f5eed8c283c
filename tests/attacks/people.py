"""People who answer, undo, merge classes and leave at once, on SQLite or on PostgreSQL."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random

from databases import empty_schema, postgres_server
from people_at_once import play

from attacks.driver import check


@cache
def server() -> str | None:
    """The address of a PostgreSQL server that lasts as long as this process; None where there is none."""
    stack = ExitStack()
    try:
        address = stack.enter_context(postgres_server())
    except ImportError:
        return None
    atexit.register(stack.close)
    return address


def attack(chance: Random, folder: Path) -> str:
    """Let some people make random calls of the store; nothing may fail, be lost or done twice."""
    address = server() if chance.random() < 0.5 else None
    url = empty_schema(address) if address else str(folder / "labels.db")
    done = play(url, people=chance.randint(2, 12), calls=chance.randint(10, 40), seed=chance.getrandbits(32))
    check(not done.failures, "; ".join(done.failures[:5]))
    return "people on PostgreSQL" if address else "people on SQLite"
