"""What a simulation says: how many answers picks need to reach a value, and how many random ones do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jostle.labelling.simulate import ARMS, Mark

WAYS = (0.5, 0.75, 0.9, 1.0)  # of the way that random picks go from their first model to their last


@dataclass(frozen=True)
class Need:
    """How many answers it took to reach a value, arm by arm; None for a seed that did not reach it."""

    value: float
    by_arm: Mapping[str, Sequence[float | None]]

    def middle(self, arm: str) -> float | None:
        """The median over seeds, one that did not get there counting as more than any; None where most did not."""
        middle = statistics.median(float("inf") if n is None else n for n in self.by_arm[arm])
        return middle if np.isfinite(middle) else None

    def saved(self) -> float | None:
        """The share of answers that picks save against random ones; None where either did not get there."""
        chosen, random = (self.middle(arm) for arm in ARMS)
        return None if chosen is None or not random else 1 - chosen / random


def needs(marks: Sequence[Mark], values: Sequence[float], smaller_is_better: bool) -> list[Need]:
    """For each value, the answers at which each run first reached it, between two models on a straight line."""
    sign = -1 if smaller_is_better else 1
    seeds = sorted({mark.seed for mark in marks})
    runs = {
        (arm, seed): [m for m in marks if (m.arm, m.seed) == (arm, seed)] for arm in ARMS for seed in seeds
    }
    return [
        Need(value, {arm: [_reached(runs[arm, seed], value, sign) for seed in seeds] for arm in ARMS})
        for value in values
    ]


def _reached(run: Sequence[Mark], value: float, sign: int) -> float | None:
    for place, mark in enumerate(run):
        if sign * mark.value >= sign * value:
            if place == 0:
                return float(mark.answers)
            before = run[place - 1]
            share = (value - before.value) / (mark.value - before.value)
            return before.answers + share * (mark.answers - before.answers)
    return None


def levels(marks: Sequence[Mark]) -> list[float]:
    """Values to count answers for: on the way of random picks, up to where they end on average."""
    seeds = sorted({mark.seed for mark in marks})
    runs = [[mark.value for mark in marks if (mark.arm, mark.seed) == ("random", seed)] for seed in seeds]
    first, last = float(np.mean([run[0] for run in runs])), float(np.mean([run[-1] for run in runs]))
    exact = [first + way * (last - first) for way in WAYS]
    step = 10.0 ** (math.floor(math.log10(max(abs(last), 1e-12))) - 2)  # three digits
    nearer = math.floor if last > first else math.ceil  # never beyond what was reached
    return [float(f"{nearer(round(value / step, 6)) * step:.3g}") for value in exact]
