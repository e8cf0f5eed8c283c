"""One driver for all attacks: each is a function of a seed, and a failure says how to see it again."""

from __future__ import annotations

import random
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

Attack = Callable[[random.Random, Path], str]  # (chance, an empty folder) -> what happened, in a word or two

FRAMES, LETTERS = 8, 600  # of an error that are shown


class BrokenPromiseError(AssertionError):
    """Something that jostle promises did not hold."""


def check(held: bool, words: str) -> None:
    """Raise BrokenPromiseError where something does not hold."""
    if not held:
        raise BrokenPromiseError(words)


def attempt(kind: str, attack: Attack, seed: int) -> str:
    """Run one attack from its seed; whatever it raises becomes a BrokenPromiseError that tells the seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory(prefix="jostle-attack-") as folder:
        try:
            return attack(random.Random(f"{kind}-{seed}"), Path(folder))
        except Exception as error:
            words = str(error) if isinstance(error, BrokenPromiseError) else shortened(error)
            raise BrokenPromiseError(f"{words}\n    again: make attack SEED={kind}-{seed}") from None


def shortened(error: Exception) -> str:
    """Where an error came from and what it said; some libraries' say pages."""
    return "".join(part[:LETTERS] for part in traceback.format_exception(error, limit=-FRAMES))
