"""One driver for all attacks: each is a function of a seed, and a failure says how to see it again."""

from __future__ import annotations

import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

Attack = Callable[[random.Random, Path], str]  # (chance, an empty folder) -> what happened, in a word or two

FRAMES, LETTERS = 8, 600  # of an error that are shown


class BrokenPromiseError(AssertionError):
    """Something that jostle promises did not hold."""


@dataclass(frozen=True)
class Failure:
    """A broken promise, and how to see it again."""

    kind: str
    seed: int
    words: str

    def __str__(self) -> str:
        return f"{self.words}\n    again: make attack SEED={self.kind}-{self.seed}"


def attempt(kind: str, attack: Attack, seed: int) -> str | Failure:
    """One attack from its seed; whatever it raises is a failure."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory(prefix="jostle-attack-") as folder:
        try:
            return attack(random.Random(f"{kind}-{seed}"), Path(folder))
        except BrokenPromiseError as broken:
            return Failure(kind, seed, str(broken))
        except Exception as error:
            return Failure(kind, seed, shortened(error))


def shortened(error: Exception) -> str:
    """Where an error came from and what it said; some libraries' say pages."""
    return "".join(part[:LETTERS] for part in traceback.format_exception(error, limit=-FRAMES))


def campaign(
    attacks: Mapping[str, Attack], jobs: Iterable[tuple[str, int]]
) -> tuple[Counter[str], list[Failure]]:
    """Many attacks: how often each ended how, and what failed."""
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    for kind, seed in jobs:
        outcome = attempt(kind, attacks[kind], seed)
        if isinstance(outcome, Failure):
            failures.append(outcome)
            print(outcome, flush=True)
        counts[f"{kind}: {'FAILED' if isinstance(outcome, Failure) else outcome}"] += 1
    return counts, failures


def fresh(kinds: Iterable[str], seconds: float) -> Iterable[tuple[str, int]]:
    """Fresh seeds for every kind in turn, until the time is over."""
    end, draw = time.monotonic() + seconds, random.SystemRandom()
    while time.monotonic() < end:
        yield from ((kind, draw.randrange(10**9)) for kind in kinds)
