"""What a strategy's card says of its settings: names, defaults, and the sentence below each field."""

from functools import partial
from typing import Any

from jostle.plumbing.documented import field_docs
from jostle.strategies.catalogue import Entry

SHARED = ("selector", "head", "outputs")  # nearly every strategy has these; the page explains them once


def own_settings(entry: Entry) -> list[tuple[str, Any, str]]:
    """Settings that are the strategy's own, with their defaults and what is said of them."""
    kind = entry.build.func if isinstance(entry.build, partial) else entry.build
    fixed = entry.build.keywords if isinstance(entry.build, partial) else {}
    said = field_docs(kind) if isinstance(kind, type) else {}
    return [
        (name, value, f": {said[name]}" if name in said else "")
        for name, value in entry.settings.items()
        if name not in SHARED or name in fixed
    ]


def shown(value: Any) -> str:
    """A default as code, functions by their names."""
    return getattr(value, "__name__", None) or repr(value)
