"""Names, alone and with settings as in `folder:photos(size=64)`; an unknown one is answered with the nearest known."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

T = TypeVar("T")
FEW_NAMES = 8  # that an error lists in full


def printable(text: str) -> str:
    """A text that can be written as UTF-8: bytes of a file name that are none are shown as `\\xe9`."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a pair, which no file name gave
        return text.encode("utf-8", "backslashreplace").decode()


def restored(text: str) -> str:
    """The file name that `printable` was given, if its `\\xe9` are bytes and not letters of the name."""
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda found: chr(0xDC00 + int(found[1], 16)), text)


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not registered, with the three nearest names, or all where they are few."""
    names = sorted(known)
    few = len(names) <= FEW_NAMES
    near = get_close_matches(str(name), names, n=1 if few else 3, cutoff=0.5)
    quoted = ", ".join(map(repr, near))
    hint = f"; did you mean {' or '.join(quoted.rsplit(', ', 1))}?" if near else ""
    if few:
        hint += f" (known: {', '.join(names) or 'none'})"
    elif not near:
        hint = f"; there are {len(names)}, such as {', '.join(names[:3])}"
    return ValueError(f"unknown {kind} {name!r}{hint}")


def look_up(kind: str, name: str, registry: Mapping[str, T]) -> T:
    """The registry's entry, or an error that suggests the nearest name."""
    if name not in registry:
        raise unknown(kind, name, registry)
    return registry[name]


def check_ranges(owner: object) -> None:
    """Raise ValueError where a setting is not in its range: `ranges` of the owner's class or of a base class.

    A range is a tuple of words or an interval as in mathematics, such as "[1, inf)"; None lies in every one.
    """
    for kind in type(owner).__mro__:
        for name, allowed in vars(kind).get("ranges", {}).items():
            value = getattr(owner, name)
            if value is None:
                continue
            if isinstance(allowed, tuple):
                look_up(name, value, dict.fromkeys(allowed))
            else:
                _check_interval(name, value, allowed)


def _check_interval(name: str, value: float, interval: str) -> None:
    low, high = interval[1:-1].split(", ")
    ends = [float(end) for end, bracket in ((low, interval[0]), (high, interval[-1])) if bracket in "[]"]
    if value not in ends and not float(low) < value < float(high):
        least = f"at least {low}" if interval[0] == "[" else f"above {low}"
        raise ValueError(f"{name} must be {least if high == 'inf' else f'in {interval}'}; got {value}")


class cached_property(functools.cached_property[T]):  # noqa: N801 - stands for the one of functools
    """`functools.cached_property` without the lock that Python 3.11 has in it.

    That lock is one for all instances: a process forked while another thread computes would wait for it for ever.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()


@dataclass(frozen=True)
class Spec:
    """A name with settings under a label; `bare` when it was a single word."""

    label: str
    use: str
    settings: dict[str, Any] = field(default_factory=dict)
    bare: bool = False


def parse_specs(text: str) -> list[Spec]:
    """The things of a list: `random, ns-logits=noise-stability(space=logits)`."""
    return [parse_spec(part) for part in split_outside_brackets(text, ",") if part.strip()]


def parse_spec(text: str) -> Spec:
    """One thing; without a label its own name is the label, and of `file.py:name` the part after the colon."""
    head, bracket, tail = text.strip().partition("(")
    label, equals, rest = head.partition("=")
    use, settings = name_and_settings((rest if equals else head) + bracket + tail)
    if not use:
        raise ValueError(f"no name in {text.strip()!r}: write name, name(setting=value) or label=name")
    own_label = label.strip() if equals else use.rpartition(":")[2]
    return Spec(own_label, use, settings, bare=not equals and not bracket)


def name_and_settings(text: str) -> tuple[str, dict[str, Any]]:
    """A name and its settings, as in `folder:photos(size=64, mode=L)`; a value may have settings of its own."""
    text = text.strip()
    start = _settings_start(text)
    inside = text[start + 1 : -1]
    if start < 0 or (inside.strip() and "=" not in inside):
        if text.count("(") != text.count(")"):
            raise ValueError(f"a bracket is not closed in {text!r}")
        return text, {}  # a path may have brackets of its own
    settings: dict[str, Any] = {}
    for part in filter(str.strip, split_outside_brackets(inside, ",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"settings are name=value; got {part.strip()!r} in {text!r}")
        settings[key.strip().replace("-", "_")] = parsed_value(value)
    return text[:start].strip(), settings


def _settings_start(text: str) -> int:
    """Return the position of the bracket that the last character closes; -1 if there is none."""
    for bracket in re.finditer(r"\(", text) if text.endswith(")") else ():
        with suppress(ValueError):
            split_outside_brackets(text[bracket.end() : -1], ",")
            return bracket.start()
    return -1


def parsed_value(text: str) -> Any:
    """A value as in TOML: numbers, true and false, lists, quoted words; `none` or `None` is None, the rest are words.

    Words in a list need no quotes either: `[cat, dog]`.
    """
    word = text.strip()
    if word in ("none", "None"):  # as Python and the documentation of settings write it, too
        return None
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        if not (word.startswith("[") and word.endswith("]")):
            return word
        return [parsed_value(part) for part in split_outside_brackets(word[1:-1], ",") if part.strip()]


def split_outside_brackets(text: str, mark: str) -> list[str]:
    """Parts between marks that stand outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            break
        if letter == mark and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or quote:
        raise ValueError(f"a bracket or quote is not closed in {text!r}")
    return parts
