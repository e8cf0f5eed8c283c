"""Every strategy of the catalogue on random networks, against its definition in plain arithmetic."""

from __future__ import annotations

from pathlib import Path
from random import Random

from attacks.oracles.checks import CHECKS


def attack(chance: Random, folder: Path) -> str:
    """Compare the picks of a random strategy with its definition."""
    name = chance.choice(sorted(CHECKS))
    return f"{name} ({CHECKS[name](chance, name)})"
