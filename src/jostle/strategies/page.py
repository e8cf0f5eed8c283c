"""docs/strategies.md, written from the catalogue: `python -m jostle.strategies.page docs/strategies.md`."""

import inspect
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from jostle.strategies.catalogue import Entry, entries

SHARED = ("selector", "head", "outputs")  # every strategy has these; the page explains them once

TOP = """# Strategies

Written from the catalogue by `make docs`; `jostle list strategies` prints the same in short.
Every strategy takes the same call, `jostle.select(name, model, pool, n=..., labeled=..., seed=...)`, with its settings
as further keywords. All of them share `selector` (how rows become picks), `head` (the layer whose input is the feature;
found by itself) and `outputs` (a function from what the model returns to its output tensor).
"""


def page() -> str:
    """The whole page: a table to choose from, then a section for each strategy."""
    every = [entries()[name] for name in sorted(entries())]
    table = ["| name | needs | tasks | cost |", "|---|---|---|---|"]
    table += [f"| [{e.name}](#{e.name}) | {words(e.needs)} | {words(e.tasks)} | {e.cost} |" for e in every]
    return "\n".join([TOP, *table, "", *map(section, every)])


def section(entry: Entry) -> str:
    """One strategy."""
    lines = [f"## {entry.name}", "", entry.idea, ""]
    facts = {
        "Formula": f"`{entry.formula}`" if entry.formula else "",
        "Needs": words(entry.needs),
        "Tasks": words(entry.tasks),
        "Cost": entry.cost,
        "Reference": entry.paper,
        "When": entry.when,
    }
    lines += [f"- **{title}:** {fact}" for title, fact in facts.items() if fact]
    lines += [f"- **{name}** = `{shown(value)}`{why}" for name, value, why in own_settings(entry)]
    return "\n".join([*lines, ""])


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


def words(items: tuple[str, ...]) -> str:
    """A list in words."""
    return ", ".join(items) or "nothing"


def shown(value: Any) -> str:
    """A default as code, functions by their names."""
    return getattr(value, "__name__", None) or repr(value)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
