"""What the command line says of a thing and its settings: `label=name(setting=value, ...)`."""

import tomllib
from dataclasses import dataclass, field
from typing import Any


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
    label, equals, rest = _labeled(text.strip())
    use, settings = name_and_settings(rest)
    if not use:
        raise ValueError(f"no name in {text.strip()!r}: write name, name(setting=value) or label=name")
    return Spec(
        label=label if equals else use.rpartition(":")[2],
        use=use,
        settings=settings,
        bare=not equals and "(" not in text,
    )


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
    for part in split_outside_brackets(inside, ","):
        key, equals, value = part.partition("=")
        if part.strip() and not equals:
            raise ValueError(f"settings are name=value; got {part.strip()!r} in {text!r}")
        if part.strip():
            settings[key.strip().replace("-", "_")] = parsed_value(value)
    return text[:start].strip(), settings


def _settings_start(text: str) -> int:
    """Where the bracket opens that the last letter closes; -1 if none does."""
    if not text.endswith(")"):
        return -1
    for start, letter in enumerate(text):
        if letter == "(" and _is_balanced(text[start + 1 : -1]):
            return start
    return -1


def _is_balanced(text: str) -> bool:
    """Whether every bracket and quote that opens here closes here."""
    depth, quote = 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return False
    return not depth and not quote


def parsed_value(text: str) -> Any:
    """A value as in TOML: numbers, true and false, lists, quoted words; `none` or `None` is None, the rest are words.

    Words in a list need no quotes either: `[cat, dog]`.
    """
    if text.strip() in ("none", "None"):  # as Python and the documentation of settings write it, too
        return None
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        word = text.strip()
        inside = word[1:-1] if word.startswith("[") and word.endswith("]") else None
        return (
            word
            if inside is None
            else [parsed_value(part) for part in split_outside_brackets(inside, ",") if part.strip()]
        )


def split_outside_brackets(text: str, mark: str) -> list[str]:
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


def _labeled(text: str) -> tuple[str, bool, str]:
    """What stands before the first = that is not inside the settings."""
    head, bracket, tail = text.partition("(")
    label, equals, rest = head.partition("=")
    return (label.strip(), True, rest + bracket + tail) if equals else ("", False, text)
