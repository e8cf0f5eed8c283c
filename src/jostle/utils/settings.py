"""Settings of whatever is built by name, checked before it is built: an error names the setting and what arrived."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
    """What a type hint admits, for people."""
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
