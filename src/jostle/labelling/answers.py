"""What people answer: one of the classes, several of them, or a number.

Answers are stored by the number of a class, so that renaming and merging classes change no answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from jostle.plumbing.names import unknown

AnswerKind = Literal["one", "several", "number"]
Answer = str | tuple[str, ...] | float  # as people say it
Stored = int | list[int] | float  # as it is stored

LONGEST_NAME = 200  # characters of a class's name


@dataclass(frozen=True)
class Answers:
    """What may be answered; `classes` are those to begin with, more can be added later."""

    kind: AnswerKind = "one"
    """"one" class, "several" classes, or a "number"."""
    classes: tuple[str, ...] = ()
    """Those to begin with; of a number there are none."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(AnswerKind):
            raise unknown("kind of answer", self.kind, get_args(AnswerKind))
        if self.kind == "number" and self.classes:
            raise ValueError(f"a number has no classes; got {', '.join(self.classes)}")
        if self.kind != "number" and not self.classes:
            raise ValueError("name the classes to choose from, such as cat,dog,other")
        names = [class_name(name) for name in self.classes]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the class {twice!r} is named twice")
        object.__setattr__(self, "classes", tuple(names))


def class_name(name: str) -> str:
    """A class's name without blanks around it; an empty, overlong or broken one is an error."""
    clean = " ".join(str(name).split())
    if not clean or len(clean) > LONGEST_NAME or not clean.isprintable():
        raise ValueError(f"a class has a name of 1 to {LONGEST_NAME} printable characters; got {name!r}")
    return clean


@dataclass(frozen=True)
class Classes:
    """The classes as they are now: their numbers by every name they ever had, and their names."""

    names: Mapping[int, str]  # number -> name, of those that were not merged into another, in order
    numbers: Mapping[str, int]  # every name ever used -> the number it stands for now
    merged: Mapping[int, int]  # every number ever used -> the number it stands for now

    def number(self, name: str) -> int:
        """The number of a class by its name, an earlier name included."""
        try:
            return self.numbers[class_name(name)]
        except KeyError:
            raise unknown("class", name, self.names.values()) from None

    def now(self, number: int) -> str:
        """The name of what a stored number stands for now."""
        return self.names[self.merged[number]]


def stored(kind: AnswerKind, answer: object, classes: Classes) -> Stored:
    """An answer as it is stored; one that does not fit the kind is an error that says what was expected."""
    if kind == "number":
        return _number(answer)
    if kind == "one":
        if not isinstance(answer, str):
            raise ValueError(f"expected the name of one class; got {answer!r}")
        return classes.number(answer)
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise ValueError(f"expected a list of class names, which may be empty; got {answer!r}")
    return sorted({classes.number(str(name)) for name in answer})


def class_of(value: Stored) -> int:
    """A stored answer of the kind "one"."""
    assert isinstance(value, int)
    return value


def set_of(value: Stored) -> list[int]:
    """A stored answer of the kind "several"."""
    assert isinstance(value, list)
    return value


def number_of(value: Stored) -> float:
    """A stored answer of the kind "number"."""
    assert isinstance(value, int | float)
    return float(value)


def current_answer(kind: AnswerKind, value: Stored, classes: Classes) -> Answer:
    """A stored answer in words of today."""
    if kind == "number":
        return number_of(value)
    if kind == "one":
        return classes.now(class_of(value))
    return tuple(sorted({classes.now(n) for n in set_of(value)}, key=list(classes.names.values()).index))


def goal_of(words: str | float, kind: AnswerKind, option: str = "--goal") -> float:
    """An accuracy as people write it, 95% or 0.95; of numbers, the mean error in their unit."""
    if kind != "number":
        return share_of(words, option)
    try:
        value = float(words)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{option} of numbers takes a mean error, such as 2.5; got {words!r}")
    return value


def share_of(words: str | float, option: str) -> float:
    """A share as people write it: 95%, 95 % or 0.95."""
    plain = str(words).strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ValueError(f"{option} takes a share, such as 95% or 0.95; got {words!r}")
    return value


def _number(answer: object) -> float:
    try:
        value = float(answer)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"expected a number; got {answer!r}") from None
    if not math.isfinite(value) or isinstance(answer, bool):
        raise ValueError(f"expected a finite number; got {answer!r}")
    return value
