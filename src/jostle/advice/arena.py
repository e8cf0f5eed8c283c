"""Settings of the benchmark, and the gain of each strategy over random picking in each.

`arena.json` beside this file is written by `make arena-advice` from the runs in results/.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jostle.tasks import CLASS_TASKS


@dataclass(frozen=True)
class Seen:
    """How one strategy did in a setting, beside random picking on the same seeds."""

    gain: float
    """The share of random's error that it takes away, as an area under the curve."""
    saved: float
    """The share of labels that it saves for what random reaches at its end; negative where it costs some."""
    seeds: int
    """Runs that both have."""
    clear: int
    """1 where the seeds agree that it is ahead of random, -1 where behind, 0 where they cannot tell."""
    passes: float | None
    """Passes over the candidates that a selection took; None where they were not counted."""
    error: float = 0.0
    """The standard error of `gain` over the seeds."""


@dataclass(frozen=True)
class Setting:
    """A protocol of the benchmark."""

    name: str
    """The protocol's."""
    title: str
    """What it is, in a line."""
    task: str
    """A name of `jostle.tasks`."""
    classes: int
    """Of the data; 1 for a regression."""
    pool: int
    """Examples to choose from."""
    labels: int
    """Labeled examples at the start."""
    pick: int
    """Examples labeled in a round."""
    seen: Mapping[str, Seen]
    """By strategy."""
    kind: str = ""
    """The kind of data: tables, images, embeddings, ...; empty where nobody said."""

    @property
    def best_first(self) -> list[str]:
        """The strategies, the largest gain first."""
        return sorted(self.seen, key=lambda label: -self.seen[label].gain)


@cache
def settings() -> tuple[Setting, ...]:
    """All settings of the benchmark."""
    text = (files("jostle.advice") / "arena.json").read_text(encoding="utf-8")
    return tuple(
        Setting(**{**each, "seen": {label: Seen(**seen) for label, seen in each["seen"].items()}})
        for each in json.loads(text)
    )


def nearest(task: str, classes: int, pool: int, labels: int, pick: int, count: int = 3) -> list[Setting]:
    """Return the settings most like a case, the likest first; none where the benchmark has no such task.

    Likeness is a matter of factors: twice as many `labels` for each of the `classes` are as far away as half as many,
    and so it is with the `pool` and with how many one is to `pick`. Of the `task` there are `count` at most.
    """
    family = CLASS_TASKS if task in CLASS_TASKS else (task,)
    known = [each for each in settings() if each.task in family]

    def distance(each: Setting) -> float:
        return (
            _apart((labels + 1) / classes, (each.labels + 1) / each.classes)
            + _apart(pick / classes, each.pick / each.classes)
            + _apart(classes, each.classes)
            + _apart(pool, each.pool) / 2
        )

    return sorted(known, key=distance)[:count]


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / other))


def record(label: str) -> str:
    """Return a sentence on a strategy, by its label, over all settings; nothing where it did not run."""
    seen = [each.seen[label] for each in settings() if label in each.seen]
    if not seen:
        return ""
    gains = [each.gain for each in seen]
    ahead, behind = (sum(each.clear == sign for each in seen) for sign in (1, -1))
    return (
        f"{sum(gains) / len(gains):+.0%} of random's error taken away on average over {len(gains)} settings, from "
        f"{min(gains):+.0%} to {max(gains):+.0%}; clearly ahead of random in {ahead}, clearly behind in {behind}"
    )
