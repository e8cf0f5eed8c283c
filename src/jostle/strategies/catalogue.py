"""The catalogue of strategies: a name, a constructor, and what a reader wants to know of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any, TypeVar

from jostle.core import SELECT_OPTIONS, Strategy
from jostle.names import look_up, unknown
from jostle.own_files import from_file

Build = Callable[..., Strategy]
B = TypeVar("B", bound=Build)

ANY_TASK = ("classification", "regression", "segmentation", "multi-label", "sequence")
DISTRIBUTIONS = ("classification", "segmentation", "multi-label", "sequence")


@dataclass(frozen=True)
class Entry:
    """A strategy of the catalogue; docs/strategies.md is written from these."""

    name: str
    build: Build
    idea: str  # two sentences
    formula: str = ""
    needs: tuple[str, ...] = ()  # of: probabilities, features, labelled set, dropout, extra training, images
    tasks: tuple[str, ...] = ANY_TASK
    cost: str = ""
    paper: str = ""
    when: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name with their defaults, fixed ones included."""
        fixed = self.build.keywords if isinstance(self.build, partial) else {}
        kind = self.build.func if isinstance(self.build, partial) else self.build
        defaults = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
        return defaults | fixed


_entries: dict[str, Entry] = {}


def register(name: str, *, idea: str = "", **card: Any) -> Callable[[B], B]:
    """Make a strategy a citizen of every command: `@register("mine")` over its class.

    The idea defaults to the docstring's first paragraph.
    """

    def enter(build: B) -> B:
        words = idea or " ".join((inspect.getdoc(build) or name).split("\n\n")[0].split())
        _entries[name] = Entry(name=name, build=build, idea=words, **card)
        return build

    return enter


def entries() -> dict[str, Entry]:
    """Every known strategy, those of installed plug-ins (entry point group `jostle.strategies`) included."""
    for point in entry_points(group="jostle.strategies"):
        if point.name not in _entries:
            register(point.name)(point.load())
    return _entries


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(entries())


def describe(name: str) -> Entry:
    """What the catalogue says of a strategy."""
    return look_up("strategy", name, entries())


def build(name: str, **settings: Any) -> Strategy:
    """A strategy by name; `file.py:name` takes it from a file."""
    if ".py:" in name:
        strategy: Strategy = from_file(name)(**settings)
        return strategy
    entry = describe(name)
    for setting in settings:
        if setting not in entry.settings:
            raise unknown(f"setting of {name}", setting, [*entry.settings, *SELECT_OPTIONS])
    return entry.build(**settings)
