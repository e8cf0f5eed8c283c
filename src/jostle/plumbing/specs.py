"""What the command line says of a thing and its settings: `label=name(setting=value, ...)`."""

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

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
