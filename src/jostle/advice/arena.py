"""Settings of the benchmark, one by one and by kind of data, labels at the start and batch.

`arena.json` beside this file is written by `make arena-advice` from the runs in results/.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jostle.tasks import CLASS_TASKS

KINDS = (
    "tables",
    "imbalanced tables",
    "images, small network",
    "embeddings, hidden layer",
    "embeddings, linear probe",
    "regressions",
)
FEW_LABELS = 2  # for each class
SMALL_BATCH = 10


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


@dataclass(frozen=True)
class Record:
    """Gains of a strategy in the settings of one group."""

    strategy: str
    """The name of the strategy."""
    gain: float
    """The mean share of random's error that it takes away."""
    worst: float
    """The smallest of these shares."""
    best: float
    """The largest of these shares."""
    ahead: int
    """Settings in which it is significantly ahead of random."""
    behind: int
    """Settings in which it is significantly behind random."""
    passes: float | None
    """Mean passes over the pool for a selection; None where they were not counted."""
    within: float
    """Half the width of a 95 % interval of the mean gain, over seeds in these settings."""


@dataclass(frozen=True)
class Group:
    """Settings of one kind of data with about the same labels and batch."""

    kind: str
    """One of `KINDS`."""
    few_labels: bool
    """Whether there are at most two labels for each class at the start."""
    small_batch: bool
    """Whether at most ten are picked at a time."""
    settings: tuple[Setting, ...]
    """The settings of the benchmark."""
    records: tuple[Record, ...]
    """The strategies that all of them have, the largest mean gain first."""

    @property
    def seeds(self) -> int:
        """Seeds of all settings together."""
        return sum(max(seen.seeds for seen in each.seen.values()) for each in self.settings)

    def record(self, strategy: str) -> Record | None:
        """Return the record of a strategy; None where some setting lacks it."""
        return next((each for each in self.records if each.strategy == strategy), None)

    def best_except(self, strategy: str) -> Record | None:
        """Return the record of the largest gain among other strategies, names of the default left out."""
        own = self.record(strategy)
        same = None if own is None else own.gain  # another name of it has the same gain
        return next((each for each in self.records if each.strategy != strategy and each.gain != same), None)


def group_of(setting: Setting) -> tuple[str, bool, bool]:
    """Return kind, few labels and small batch of a setting."""
    return setting.kind, *sizes(setting.classes, setting.labels, setting.pick)


def sizes(classes: int, labels: int, pick: int) -> tuple[bool, bool]:
    """Return whether there are few labels for each class, and whether the batch is small."""
    return labels <= FEW_LABELS * classes, pick <= SMALL_BATCH


def groups() -> list[Group]:
    """Return all groups of the benchmark, in the order of `KINDS`."""
    found: dict[tuple[str, bool, bool], list[Setting]] = {}
    for setting in settings():
        if setting.kind in KINDS:
            found.setdefault(group_of(setting), []).append(setting)
    order = sorted(found, key=lambda key: (KINDS.index(key[0]), not key[1], not key[2]))
    return [Group(*key, tuple(found[key]), records(found[key])) for key in order]


def records(found: list[Setting]) -> tuple[Record, ...]:
    """Return the records of the strategies that all settings have, the largest mean gain first."""
    shared = set.intersection(*(set(each.seen) for each in found))
    made = [make_record(label, found) for label in sorted(shared)]
    return tuple(sorted(made, key=lambda each: -each.gain))


def of_kind(kind: str) -> tuple[Record, ...]:
    """Return the records of the strategies that all settings of a kind of data have, the largest mean gain first."""
    return records([each for each in settings() if each.kind == kind])


def make_record(label: str, found: Sequence[Setting]) -> Record:
    """Return the record of one strategy over several settings that have it."""
    seen = [each.seen[label] for each in found]
    gains = [each.gain for each in seen]
    passes = [each.passes for each in seen if each.passes is not None]
    return Record(
        label,
        sum(gains) / len(gains),
        min(gains),
        max(gains),
        sum(each.clear > 0 for each in seen),
        sum(each.clear < 0 for each in seen),
        sum(passes) / len(passes) if len(passes) == len(seen) else None,
        1.96 * math.hypot(*(each.error for each in seen)) / len(seen),
    )


def record(label: str) -> str:
    """Return a sentence on a strategy, by its label, over all settings; nothing where it did not run."""
    known = [each for each in settings() if label in each.seen]
    if not known:
        return ""
    found = make_record(label, known)
    return (
        f"{found.gain:+.0%} of random's error taken away on average over {len(known)} settings, from "
        f"{found.worst:+.0%} to {found.best:+.0%}; clearly ahead of random in {found.ahead}, clearly behind in "
        f"{found.behind}"
    )


def find_group(kind: str, classes: int, labels: int, pick: int) -> Group | None:
    """Return the group of a case: of its kind the one with as many labels and picks, else any of its kind."""
    wanted = (kind, *sizes(classes, labels, pick))
    same = [each for each in groups() if each.kind == kind]
    exact = [each for each in same if (each.kind, each.few_labels, each.small_batch) == wanted]
    return next(iter(exact or sorted(same, key=lambda each: each.few_labels != wanted[1])), None)


def in_words(group: Group) -> tuple[str, str, str]:
    """Return kind, labels and batch of a group as a reader wants them."""
    labels = f"up to {FEW_LABELS} a class" if group.few_labels else f"more than {FEW_LABELS} a class"
    if group.kind == "regressions":
        labels = "20"
    return group.kind, labels, f"up to {SMALL_BATCH}" if group.small_batch else f"above {SMALL_BATCH}"
