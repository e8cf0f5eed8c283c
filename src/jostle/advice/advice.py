"""Advice for one case: the strategy, the reasons, and the evidence; its price is a plan's to tell."""

from __future__ import annotations

from dataclasses import dataclass

from jostle import strategies
from jostle.advice import arena
from jostle.advice.arena import Setting, nearest
from jostle.strategies.herding import default_for


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
    """The kind of data, a name of `jostle.advice.arena.KINDS`."""


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
    return (*why, *(in_words(seen[0], label) for label in told))


def of_the_group(case: Case) -> list[str]:
    """Describe the results of `default` on data of this kind, and of better strategies."""
    group = arena.find_group(case.kind, case.classes, case.labels, case.n)
    own = None if group is None else group.record("default")
    if group is None or own is None:
        return []
    kind, labels, batch = arena.in_words(group)
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


def in_words(setting: Setting, label: str) -> str:
    """Describe the results of a strategy in a setting."""
    seen = setting.seen[label]
    verdict = {1: "ahead of random", 0: "not significantly different from random", -1: "behind random"}[
        seen.clear
    ]
    return (
        f"in {setting.name}, {label} was {verdict} over {seen.seeds} seeds: {seen.gain:+.0%} of random's error, "
        f"{seen.saved:+.0%} of its labels saved"
    )
