"""People who answer, undo, merge classes and leave at once, on SQLite or on the PostgreSQL of JOSTLE_POSTGRES."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from databases import empty_schema
from people_at_once import play

from attacks.driver import BrokenPromiseError


def attack(chance: Random, folder: Path) -> str:
    """Let some people make random calls of the store; nothing may fail, be lost or done twice."""
    server = os.environ.get("JOSTLE_POSTGRES") if chance.random() < 0.5 else None
    url = empty_schema(server) if server else str(folder / "labels.db")
    done = play(url, people=chance.randint(2, 12), calls=chance.randint(10, 40), seed=chance.getrandbits(32))
    if done.failures:
        raise BrokenPromiseError("; ".join(done.failures[:5]))
    return "people on PostgreSQL" if server else "people on SQLite"
