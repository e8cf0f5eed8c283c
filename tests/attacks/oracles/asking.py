"""Calls of jostle on a scene, and scores of distributions."""

from __future__ import annotations

from random import Random
from typing import Any

from torch import Tensor

import jostle
from attacks.oracles.scene import Scene


def ask(name: str, s: Scene, n: int, **options: Any) -> jostle.Query:
    """The picks of a strategy, all passes of which are on the tape."""
    s.net.tape.passes.clear()
    s.net.tape.heads.clear()
    return jostle.select(name, s.net, s.pool, n, task=s.task, progress=False, **options)


def count(chance: Random, s: Scene, most: int = 8) -> int:
    """How many to pick."""
    return chance.randint(1, min(most, len(s.pool)))


def entropy(p: Tensor) -> Tensor:
    """In nats."""
    return -(p * p.clamp(min=1e-300).log()).sum(-1)


def doubt(p: Tensor) -> Tensor:
    """One less the margin."""
    best = p.sort(-1, descending=True).values
    return 1 - (best[..., 0] - best[..., 1])


def tied(scores: Tensor, most: int) -> bool:
    """Whether rounding or the seed decides which are the largest so many scores."""
    order = scores.sort(descending=True).values
    return most < len(order) and float(order[most - 1] - order[most]) < 1e-9
