"""Settings of whatever is built by name, checked before it is built: an error names the setting and what arrived."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jostle.utils.names import unknown


def check_settings(
    owner: str, build: Callable[..., Any], settings: Mapping[str, Any], known: Iterable[str] | None = None
) -> None:
    """Refuse settings that `build` does not take, values that cannot be theirs, and any that it still lacks.

    A misspelled one is answered from `known`: its names may be more or fewer than those that `build` takes.
    """
    kind = build.func if isinstance(build, partial) else build
    parameters = inspect.signature(build).parameters
    free = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    hints = _hints(kind)
    for name, value in settings.items():
        if name not in parameters and not free:
            raise unknown(f"setting of {owner}", name, parameters if known is None else known)
        if not fits(value, hints.get(name, Any)):
            raise ValueError(f"{owner}: {name} takes {type_in_words(hints[name])}; got {value!r}")
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
        return _is_list(value) and all(fits(each, get_args(hint)[0]) for each in value)
    if hint in (int, float) and isinstance(value, bool):
        return False
    plain: dict[Any, Any] = {
        int: Integral,  # numpy's numbers too
        float: Real,
        bool: bool,
        str: str,
        Path: (str, Path),
        NoneType: NoneType,
    }
    return isinstance(value, plain.get(hint, object))


def type_in_words(hint: Any) -> str:
    """Describe the values that a type hint admits."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_in_words, get_args(hint))))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is Sequence:
        return "a list [...]"
    said = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", Path: "a path"}
    return said.get(hint, "none" if hint is NoneType else getattr(hint, "__name__", str(hint)))


def bracketed(settings: Mapping[str, Any]) -> str:
    """Settings as the command line writes them: `(num_perturbations=10, noise_scale=0.1)`, and nothing for none."""
    shown = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"({shown})" if shown else ""


def _is_list(value: Any) -> bool:
    """Whether a value is a list, a tuple, an array or a ModuleList; words have an order too, but are one value."""
    return (
        isinstance(value, Sized)
        and isinstance(value, Iterable)
        and not isinstance(value, str | bytes | Mapping | Set)
    )


def _hints(kind: Any) -> dict[str, Any]:
    """Type hints of a function or a class's fields; none where they cannot be resolved."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}


F = TypeVar("F", bound=Callable[..., Any])

SETTINGS = "Settings:"  # the line above them in a docstring


def field_docs(kind: type) -> dict[str, str]:
    """Field -> the string literal below it, as one line; those of base classes included."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        found |= _own_docs(base)
    return found


def argument_docs(function: Callable[..., Any]) -> dict[str, str]:
    """Argument -> what the docstring's part `Args:` says of it, as one line."""
    _, _, part = (inspect.getdoc(function) or "").partition("Args:\n")
    found: dict[str, str] = {}
    for line in part.split("\n\n")[0].splitlines():
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name, found[start[1]] = start[1], start[2]
        elif line.startswith("     ") and found:
            found[name] += " " + line.strip()
    return found


@cache
def _own_docs(kind: type) -> dict[str, str]:
    """Those that stand in the class itself; none where its source cannot be read."""
    if kind.__module__ == "builtins":
        return {}
    try:
        (definition,) = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    body = definition.body
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def explain_settings(kind: type) -> None:
    """Let `help()` show the strings below the fields of a class, by ending its docstring with them."""
    words, said = vars(kind).get("__doc__") or "", field_docs(kind)
    lines = [f"    {name}: {said[name]}" for name in inspect.signature(kind).parameters if name in said]
    if words and lines and SETTINGS not in words:
        kind.__doc__ = "\n".join([inspect.cleandoc(words), "", SETTINGS, *lines])


def _as_written(annotation: Any) -> Any:
    """A type hint as the source has it, where its evaluation was put off."""
    return getattr(annotation, "__forward_arg__", annotation)


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Let `help()` show the keywords of `**options: Unpack[options]` one by one, with what is said of each.

    An option that is not among the `defaults` is None unless given. A function that takes further keywords of any kind
    keeps them, after the options.
    """

    def show(function: F) -> F:
        signature = inspect.signature(function)
        given = signature.parameters.values()
        free = [each for each in given if each.kind is not each.VAR_KEYWORD]
        further = [
            each for each in given if each.kind is each.VAR_KEYWORD and "Unpack" not in str(each.annotation)
        ]
        shown = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=_as_written(kind)
            )
            for name, kind in options.__annotations__.items()
        ]
        vars(function)["__signature__"] = signature.replace(parameters=[*free, *shown, *further])
        said = field_docs(options)
        lines = [f"    {name}: {said[name]}" for name in options.__annotations__ if name in said]
        arguments, gap, rest = _split_after_args(inspect.getdoc(function) or "")
        function.__doc__ = "\n".join([arguments, *lines]) + gap + rest
        return function

    return show


def _split_after_args(doc: str) -> tuple[str, str, str]:
    """Split a docstring behind its part `Args:`, where more arguments can be added."""
    before, name, args = doc.partition("Args:\n")
    own, gap, rest = args.partition("\n\n")
    return (before + name + own, gap, rest) if name else (doc, "", "")


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
    """Return the position of the bracket that the last character closes; -1 if there is none."""
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
    """Return the text before the first = outside the settings."""
    head, bracket, tail = text.partition("(")
    label, equals, rest = head.partition("=")
    return (label.strip(), True, rest + bracket + tail) if equals else ("", False, text)
