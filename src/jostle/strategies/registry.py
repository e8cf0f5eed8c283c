"""The registry of strategies: a name, a constructor, and what a reader wants to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from jostle import embeddings, selectors
from jostle.core import Strategy
from jostle.tasks import TASKS
from jostle.utils import registry

B = TypeVar("B", bound=Callable[..., Any])

ANY_TASK = tuple(TASKS)
SHARED = ("selector", "head", "outputs")  # settings of nearly every strategy, which pages explain once
NAMED: set[Any] = set()  # classes that have their name from the registry: of several, the first


@dataclass(frozen=True)
class Entry(registry.Entry):
    """A strategy of the registry; docs/reference/strategies.md is written from these."""

    gist: str = ""
    """What it takes, in a few words, for lists."""
    formula: str = ""
    """What decides, as a formula."""
    needs: tuple[str, ...] = ()
    """Of: weights, probabilities, features, labeled set, dropout, extra training, images."""
    tasks: tuple[str, ...] = ANY_TASK
    """The tasks that it serves."""
    cost: str = ""
    """What takes its time and memory."""
    paper: str = ""
    """Where it was published."""
    when: str = ""
    """What it is good for."""


def suggest_composition(name: str) -> str:
    """Return a hint for the name of a selector or of an embedding; empty where it is neither."""
    if name in selectors.names():
        rows = "entropy" if name == "top-k" else "features"
        return f"it is a selector, which picks among rows; use jostle.compose({rows!r}, {name!r})"
    if name in embeddings.names():
        return f"it is an embedding; use jostle.compose({name!r}, 'k-center') or another selector"
    return ""


REGISTRY: registry.Registry[Strategy, Entry] = registry.Registry(
    "strategy",
    "jostle.strategies",
    Entry,
    makes=(Strategy, "a jostle.Strategy"),
    hint=suggest_composition,
)
describe = REGISTRY.entry


def register(name: str, *, idea: str = "", **card: Any) -> Callable[[B], B]:
    """Decorate a strategy that goes by a name from now on: `@register("mine")` over a class or function.

    A name that is taken by another definition is an error; running the same definition again replaces it.

    Args:
        name: What every call and command will know it by, and what messages call it; of a class with
            several names the first.
        idea: What it is, in a sentence or two; otherwise the docstring's first paragraph.
        card: What else a reader wants to know, as the fields of `Entry`.
    """

    def entered(build: B) -> B:
        kind = build.func if isinstance(build, partial) else build
        if isinstance(kind, type) and issubclass(kind, Strategy):
            card.setdefault("tasks", kind.serves)
            if kind is build and kind not in NAMED:
                kind.name = name  # type: ignore[attr-defined]
                NAMED.add(kind)
        return REGISTRY.register(name, idea=idea, **card)(build)

    return entered


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(REGISTRY.names())


def build(name: str, /, **settings: Any) -> Strategy:
    """A strategy by name.

    Args:
        name: A name of the registry, or `file.py:name`, a class or function of your own that makes one.
        settings: Its settings, by keyword.
    """
    return REGISTRY.build(name, settings)
