"""Answers of people: one class, several classes or a number; the classes of a project; the keys that choose them.

Answers are stored by the number of a class, so that renaming and merging classes change no answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Literal, get_args

from jostle.utils.names import unknown

AnswerKind = Literal["one", "several", "number"]
Answer = str | tuple[str, ...] | float  # as people say it
StoredAnswer = int | list[int] | float  # as it is stored

GROUPED_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,250 and 1,250,000.5
MAX_PERSON_LENGTH = 100  # characters of a person's name
MAX_NAME_LENGTH = 200  # characters of a class's name


@dataclass(frozen=True)
class Answers:
    """Kind of answers, and the classes to begin with; more can be added later."""

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
        names = [clean_class_name(name) for name in self.classes]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise ValueError(f"the class {name!r} is named twice")
            if alike := [other for other in names[:place] if other.casefold() == name.casefold()]:
                raise ValueError(same_but_for_case(name, alike[0]))
        object.__setattr__(self, "classes", tuple(names))


def same_but_for_case(name: str, other: str) -> str:
    """Return the words for two classes that people would take for one."""
    return f"the classes {other!r} and {name!r} differ only in case: use one of them"


def clean_class_name(name: str) -> str:
    """Return a class's name without surrounding blanks; raise ValueError if it is empty, too long or not printable."""
    return _clean_name("class", name, MAX_NAME_LENGTH)


def clean_person_name(name: str) -> str:
    """Return a person's name without surrounding blanks; raise ValueError if it is empty, too long or not printable."""
    return _clean_name("person", name, MAX_PERSON_LENGTH)


def _clean_name(what: str, name: str, limit: int) -> str:
    clean = " ".join(str(name).split())
    if not clean or len(clean) > limit or not clean.isprintable():
        raise ValueError(f"a {what} has a name of 1 to {limit} printable characters; got {name!r}")
    return clean


@dataclass(frozen=True)
class Classes:
    """Current classes: their names, and the current number of every name and number that was ever used."""

    names: Mapping[int, str]  # number -> name, of those that were not merged into another, in order
    numbers: Mapping[str, int]  # every name ever used -> the number it stands for now
    merged: Mapping[int, int]  # every number ever used -> the number it stands for now

    def number(self, name: str) -> int:
        """Return the number of a class by its name, an earlier name included."""
        try:
            return self.numbers[clean_class_name(name)]
        except KeyError:
            raise unknown("class", name, self.names.values()) from None

    def find(self, name: str) -> int | None:
        """Return the number of a current class whose name differs at most in case; None where there is none."""
        alike = [number for number, now in self.names.items() if now.casefold() == name.casefold()]
        return next((number for number in alike if self.names[number] == name), alike[0] if alike else None)

    def current_name(self, number: int) -> str:
        """Return the name that a stored number has now."""
        return self.names[self.merged[number]]


def as_class(value: StoredAnswer) -> int:
    """Return a stored answer of the kind "one", typed."""
    assert isinstance(value, int)
    return value


def as_classes(value: StoredAnswer) -> list[int]:
    """Return a stored answer of the kind "several", typed."""
    assert isinstance(value, list)
    return value


def as_number(value: StoredAnswer) -> float:
    """Return a stored answer of the kind "number", typed."""
    assert isinstance(value, int | float)
    return float(value)


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage, as the page writes it."""
    return f"{100 * share:.{digits}f} %"


def parse_share(words: str | float, option: str) -> float:
    """Parse a share such as 95%, 95 % or 0.95."""
    plain = str(words).strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ValueError(f"{option} takes a share, such as 95% or 0.95; got {words!r}")
    return value


def parse_number(text: str) -> float:
    """Parse a number with a decimal point; "1,250" is 1250, and "1,25" raises a ValueError with both readings."""
    plain = text.strip()
    if GROUPED_NUMBER.fullmatch(plain):
        plain = plain.replace(",", "")
    if re.fullmatch(r"[+-]?\d+,\d+", plain):
        decimal, joined = float(plain.replace(",", ".")), float(plain.replace(",", ""))
        raise ValueError(f"{text!r} can mean {decimal:g} or {joined:g}: write one of these")
    try:
        value = float(plain)
    except ValueError:
        raise ValueError(f"expected a number; got {text!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number; got {text!r}")
    return value


MAX_DIGIT_KEYS = 9  # classes that a digit names by their place
ACTION_KEYS = frozenset("uz")  # letters of the page: unsure and zoom


def split_class_keys(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return classes without their keys, and the keys of those that are written as `cat=c`."""
    names: list[str] = []
    keys: dict[str, str] = {}
    for word in words:
        before, _, after = word.rpartition("=")
        name, key = before.strip(), after.strip().lower()
        if name and is_key(key):
            word = clean_class_name(name)
            if key in keys.values():
                raise ValueError(f"two classes have the key {key!r}: give {word!r} another one")
            keys[word] = key
        names.append(word)
    return tuple(names), keys


def assign_keys(classes: Sequence[str], own: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """Return the keys of each class, best first: one of its `own`, or its position and a letter of its name.

    A class of one character has that character as its key. Where classes are digits, positions are left out: who sees
    a 7 presses 7.
    """
    own = own or {}
    chosen = {key: name for name, key in own.items()}
    owners = {name.lower(): name for name in reversed(classes) if is_key(name.lower())}
    if not any(key.isdecimal() for key in owners):
        owners |= {str(place): name for place, name in enumerate(classes[:MAX_DIGIT_KEYS], start=1)}
    owners = {key: name for key, name in owners.items() if name not in chosen.values()} | chosen
    lettered = {name for key, name in owners.items() if not key.isdecimal() or key == name} | own.keys()
    for name in classes:
        if name not in lettered:
            letters = (each for each in name.lower() + ascii_lowercase if each.isalpha() and is_key(each))
            free = next((each for each in letters if each not in ACTION_KEYS and each not in owners), None)
            owners |= {} if free is None else {free: name}
    return {name: tuple(sorted(key for key, owner in owners.items() if owner == name)) for name in classes}


def is_key(letter: str) -> bool:
    """Whether a text is what one key of a keyboard writes."""
    return len(letter) == 1 and letter.isalnum()
