"""What a card says of settings: names, defaults, and the sentence below each field."""

from typing import Any

from jostle.utils.registry import Entry

SHARED = ("selector", "head", "outputs")  # nearly every strategy has these; the page explains them once


def own_settings(entry: Entry) -> list[tuple[str, Any, str]]:
    """Settings that are the strategy's own, with their defaults and what is said of them."""
    return [
        (name, value, f": {entry.docs[name]}" if name in entry.docs else "")
        for name, value in entry.settings.items()
        if name not in SHARED or name in entry.fixed
    ]


def default_as_code(value: Any) -> str:
    """A default as code, functions by their names."""
    return getattr(value, "__name__", None) or repr(value)
