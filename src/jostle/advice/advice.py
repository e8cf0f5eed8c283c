"""Advice for one case, and what the benchmark measured in similar settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import TypeAdapter

from jostle import strategies
from jostle.strategies.default import default_for
from jostle.tasks import CLASS_TASKS


@dataclass(frozen=True)
class Case:
    """A query to be advised on."""

    task: str
    """A name of `jostle.tasks`."""
    classes: int
    """Outputs of the model; 1 for a regression."""
    pool: int
    """Examples to choose from."""
    n: int
    """Examples to pick."""
    labels: int = 0
    """Examples labeled by now."""
    linear: bool = False
    """Whether all parameters of the model belong to its last layer."""
    kind: str = "tables"
    """The kind of data, a name of `jostle.advice.advice.KINDS`."""


@dataclass(frozen=True)
class Advice:
    """Advice: the strategy to use, and the reasons."""

    strategy: str
    """A name of the registry."""
    why: tuple[str, ...]
    """Reasons, a sentence each."""
    seen: tuple[Setting, ...]
    """The settings of the benchmark most like the case."""


def advise(case: Case) -> Advice:
    """The strategy for a case, with its reasons; the arena's nearest settings are told, whatever they say."""
    seen = tuple(nearest(case.task, case.classes, case.pool, case.labels, case.n))
    if case.n >= case.pool:
        return Advice("random", ("all of the pool is to be labeled, so there is nothing to choose",), seen)
    if case.labels == 0:
        why = (
            "nothing is labeled, so the model cannot be unsure yet: cover the pool by the features of a model trained "
            "on something else",
            "without such a model, pick at random",
        )
        return Advice("max-herding", why, seen)
    return Advice("default", reasons(case, seen), seen)


def reasons(case: Case, seen: tuple[Setting, ...]) -> tuple[str, ...]:
    """Why the default is meant for this case, in the arena's words."""
    chosen = default_for(case.task, case.linear)
    why = [f"`default` is {chosen} here: {strategies.describe(chosen).gist}", *of_the_group(case)]
    if not seen:
        return (
            *why,
            f"the arena has no {case.task}, so this is a guess from its classifications and regressions",
        )
    told = dict.fromkeys(label for label in ("default", seen[0].best_first[0]) if label in seen[0].seen)
    return (*why, *(describe_result(seen[0], label) for label in told))


def of_the_group(case: Case) -> list[str]:
    """Describe the results of `default` on data of this kind, and of better strategies."""
    group = find_group(case.kind, case.classes, case.labels, case.n)
    own = None if group is None else group.record("default")
    if group is None or own is None:
        return []
    kind, labels, batch = group_in_words(group)
    number = len(group.settings)
    said = [
        f"{kind}, labels {labels}, batches {batch}: over {number} setting{'s' if number > 1 else ''} default took away "
        f"{own.gain:+.0%} ± {own.within:.0%} of random's error ({own.worst:+.0%} to {own.best:+.0%}), significantly "
        f"ahead of random in {own.ahead} and behind in {own.behind}"
    ]
    best = group.best_except("default")
    if best is not None and best.gain > own.gain:
        cost = "" if best.passes is None else f" at {best.passes:.1f} passes"
        said.append(f"{best.strategy} took away more there: {best.gain:+.0%}{cost}")
    return said


def describe_result(setting: Setting, label: str) -> str:
    """Describe the results of a strategy in a setting."""
    seen = setting.seen[label]
    verdicts = {1: "ahead of random", 0: "not significantly different from random", -1: "behind random"}
    return (
        f"in {setting.name}, {label} was {verdicts[seen.clear]} over {seen.seeds} seeds: {seen.gain:+.0%} of random's "
        f"error, {seen.saved:+.0%} of its labels saved"
    )


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
    return TypeAdapter(tuple[Setting, ...]).validate_json(text)


def nearest(task: str, classes: int, pool: int, labels: int, pick: int, count: int = 3) -> list[Setting]:
    """Return the settings most like a case, the likest first; none where the benchmark has no such task.

    Likeness is a matter of factors: twice as many `labels` for each of the `classes` are as far away as half as many,
    and so it is with the `pool` and with how many one is to `pick`. Of the `task` there are `count` at most.
    """
    family = CLASS_TASKS if task in CLASS_TASKS else (task,)
    known = [each for each in settings() if each.task in family]

    def distance(each: Setting) -> float:
        factors = (
            (labels + 1) / classes / ((each.labels + 1) / each.classes),
            pick / classes / (each.pick / each.classes),
            classes / each.classes,
        )
        return sum(abs(math.log(factor)) for factor in factors) + abs(math.log(pool / each.pool)) / 2

    return sorted(known, key=distance)[:count]


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


def sizes(classes: int, labels: int, pick: int) -> tuple[bool, bool]:
    """Return whether there are few labels for each class, and whether the batch is small."""
    return labels <= FEW_LABELS * classes, pick <= SMALL_BATCH


def groups() -> list[Group]:
    """Return all groups of the benchmark, in the order of `KINDS`."""
    found: dict[tuple[str, bool, bool], list[Setting]] = {}
    for each in settings():
        if each.kind in KINDS:
            group = (each.kind, *sizes(each.classes, each.labels, each.pick))
            found.setdefault(group, []).append(each)
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
    few, small = sizes(classes, labels, pick)
    same = [each for each in groups() if each.kind == kind]
    return min(
        same,
        key=lambda each: ((each.few_labels, each.small_batch) != (few, small), each.few_labels != few),
        default=None,
    )


def group_in_words(group: Group) -> tuple[str, str, str]:
    """Return kind, labels and batch of a group as a reader wants them."""
    few = f"up to {FEW_LABELS} a class" if group.few_labels else f"more than {FEW_LABELS} a class"
    labels = "20" if group.kind == "regressions" else few
    return group.kind, labels, f"up to {SMALL_BATCH}" if group.small_batch else f"above {SMALL_BATCH}"
