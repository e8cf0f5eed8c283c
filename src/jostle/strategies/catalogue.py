"""The catalogue of strategies: a name, a constructor, and what a reader wants to know of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any, TypeVar

from jostle.core import Strategy
from jostle.plumbing.names import look_up
from jostle.plumbing.settings import bracketed, check_settings
from jostle.plumbing.user_files import from_file, is_own
from jostle.tasks import CLASS_TASKS, TASKS

Build = Callable[..., Strategy]
B = TypeVar("B", bound=Build)

ANY_TASK = tuple(TASKS)
DISTRIBUTIONS = (*CLASS_TASKS, "segmentation", "multi-label", "sequence")


@dataclass(frozen=True)
class Entry:
    """A strategy of the catalogue; docs/strategies.md is written from these."""

    name: str
    build: Build
    idea: str  # two sentences
    gist: str = ""  # what it takes, in a few words, for lists
    formula: str = ""
    needs: tuple[
        str, ...
    ] = ()  # of: weights, probabilities, features, labelled set, dropout, extra training, images
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


def build(name: str, /, **settings: Any) -> Strategy:
    """A strategy by name; `file.py:name` takes it from a file."""
    return built(name, settings)


def built(name: str, settings: Mapping[str, Any], options: Iterable[str] = ()) -> Strategy:
    """The same; `options` are what else a user may have meant by a setting that is not known."""
    make = from_file(name) if is_own(name) else describe(name).build
    check_settings(name, make, settings, [*inspect.signature(make).parameters, *options])
    try:
        made = make(**settings)
    except TypeError as wrong:
        raise ValueError(f"{name}{bracketed(settings)}: {wrong}") from wrong
    if not isinstance(made, Strategy):
        raise TypeError(f"{name} made {type(made).__name__}; expected a jostle.Strategy")
    return made
