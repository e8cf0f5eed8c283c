"""What a class says of its fields and a function of its options, read from the strings that stand below them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, TypeVar

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
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", *lines])
        return function

    return show
