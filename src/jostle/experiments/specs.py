"""What the command line says of a thing and its settings: `label=name(setting=value, ...)`."""

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jostle.names import unknown

_SETTINGS = re.compile(r"(?P<use>.*?)\((?P<inside>[^()]*(?:\([^()]*\)[^()]*)*)\)", re.DOTALL)


@dataclass(frozen=True)
class Spec:
    """A name with settings under a label; `bare` when it was a single word."""

    label: str
    use: str
    settings: dict[str, Any] = field(default_factory=dict)
    bare: bool = False


def specs(text: str) -> list[Spec]:
    """The things of a list: `random, ns-logits=noise-stability(space=logits)`."""
    return [spec(part) for part in split(text, ",") if part.strip()]


def spec(text: str) -> Spec:
    """One thing; without a label its own name is the label, and of `file.py:name` the part after the colon."""
    label, equals, rest = _labelled(text.strip())
    use, settings = called(rest)
    if not use:
        raise ValueError(f"no name in {text.strip()!r}: write name, name(setting=value) or label=name")
    return Spec(
        label=label if equals else use.rpartition(":")[2],
        use=use,
        settings=settings,
        bare=not equals and "(" not in text,
    )


def called(text: str) -> tuple[str, dict[str, Any]]:
    """A name and its settings, as in `folder:photos(size=64, mode=L)`."""
    found = _SETTINGS.fullmatch(text.strip())
    inside = found["inside"] if found else ""
    if found is None or (inside.strip() and "=" not in inside):
        if text.count("(") != text.count(")"):
            raise ValueError(f"a bracket is not closed in {text!r}")
        return text.strip(), {}  # a path may have brackets of its own
    settings: dict[str, Any] = {}
    for part in split(inside, ","):
        key, equals, value = part.partition("=")
        if part.strip() and not equals:
            raise ValueError(f"settings are name=value; got {part.strip()!r} in {text!r}")
        if part.strip():
            settings[key.strip().replace("-", "_")] = values(value)
    return found["use"].strip(), settings


def values(text: str) -> Any:
    """A value as in TOML: numbers, true and false, lists, quoted words; `none` is None, the rest are words."""
    if text.strip() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def split(text: str, mark: str) -> list[str]:
    """Parts between marks that stand outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += (letter in "([{") - (letter in ")]}") if not quote else 0
        if letter == mark and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or quote:
        raise ValueError(f"a bracket or quote is not closed in {text!r}")
    return parts


def _labelled(text: str) -> tuple[str, bool, str]:
    """What stands before the first = that is not inside the settings."""
    head, bracket, tail = text.partition("(")
    label, equals, rest = head.partition("=")
    return (label.strip(), True, rest + bracket + tail) if equals else ("", False, text)


def check_settings(owner: str, build: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that `build` does not take, values that cannot be theirs, and any that it still lacks."""
    kind = build.func if isinstance(build, partial) else build
    parameters = inspect.signature(build).parameters
    free = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    hints = _hints(kind)
    for name, value in settings.items():
        if name not in parameters and not free:
            raise unknown(f"setting of {owner}", name, parameters)
        if not fits(value, hints.get(name, Any)):
            raise ValueError(f"{owner}: {name} takes {in_words(hints[name])}; got {value!r}")
    for name, each in parameters.items():
        needed = each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        if needed and name not in settings:
            raise ValueError(f"{owner} needs a value for {name}: write {owner}({name}=...)")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be what a type hint says; what is no plain type is not judged."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is Sequence:
        return isinstance(value, list | tuple) and all(fits(each, get_args(hint)[0]) for each in value)
    if hint in (int, float) and isinstance(value, bool):
        return False
    plain: dict[Any, Any] = {
        int: int,
        float: (int, float),
        bool: bool,
        str: str,
        Path: (str, Path),
        NoneType: NoneType,
    }
    return isinstance(value, plain.get(hint, object))


def in_words(hint: Any) -> str:
    """What a type hint admits, for people."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, get_args(hint))))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is Sequence:
        return "a list [...]"
    said = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", Path: "a path"}
    return said.get(hint, "none" if hint is NoneType else getattr(hint, "__name__", str(hint)))


def _hints(kind: Any) -> dict[str, Any]:
    """Type hints of a function or a class's fields; none where they cannot be resolved."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}
