"""One table by kind of data, labels at the start and batch: gain, cost and confidence, from the benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jostle.advice import arena
from jostle.advice.arena import Setting

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
    for setting in arena.settings():
        if setting.kind in KINDS:
            found.setdefault(group_of(setting), []).append(setting)
    order = sorted(found, key=lambda key: (KINDS.index(key[0]), not key[1], not key[2]))
    return [Group(*key, tuple(found[key]), records(found[key])) for key in order]


def records(settings: list[Setting]) -> tuple[Record, ...]:
    """Return the records of the strategies that all settings have, the largest mean gain first."""
    shared = set.intersection(*(set(each.seen) for each in settings))
    made = [record(label, [each.seen[label] for each in settings]) for label in sorted(shared)]
    return tuple(sorted(made, key=lambda each: -each.gain))


def of_kind(kind: str) -> tuple[Record, ...]:
    """Return the records of the strategies that all settings of a kind of data have, the largest mean gain first."""
    return records([each for each in arena.settings() if each.kind == kind])


def record(label: str, seen: Iterable[arena.Seen]) -> Record:
    """Return the record of one strategy over several settings."""
    seen = list(seen)
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
