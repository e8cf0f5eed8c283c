"""What a strategy's card says of its settings: names, defaults, and the why beside each field."""

import inspect
import re
from functools import partial
from typing import Any

from jostle.strategies.catalogue import Entry

SHARED = ("selector", "head", "outputs")  # every strategy has these; the page explains them once


def own_settings(entry: Entry) -> list[tuple[str, Any, str]]:
    """Settings that are the strategy's own, with their defaults and the comments beside their fields."""
    kind = entry.build.func if isinstance(entry.build, partial) else entry.build
    fixed = entry.build.keywords if isinstance(entry.build, partial) else {}
    why = comments(kind)
    return [
        (name, value, f": {why[name]}" if name in why else "")
        for name, value in entry.settings.items()
        if name not in SHARED or name in fixed
    ]


def comments(kind: Any) -> dict[str, str]:
    """Field -> the comment at its line's end, those of base classes included."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        if base.__module__.startswith("jostle"):
            found |= dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(base), re.MULTILINE))
    return found


def shown(value: Any) -> str:
    """A default as code, functions by their names."""
    return getattr(value, "__name__", None) or repr(value)
