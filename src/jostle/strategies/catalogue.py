"""The catalogue of strategies: a name, a constructor, and what a reader wants to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jostle.core import Strategy
from jostle.plumbing import catalogue
from jostle.tasks import TASKS

ANY_TASK = tuple(TASKS)


@dataclass(frozen=True)
class Entry(catalogue.Entry):
    """A strategy of the catalogue; docs/strategies.md is written from these."""

    gist: str = ""
    """What it takes, in a few words, for lists."""
    formula: str = ""
    """What decides, as a formula."""
    needs: tuple[str, ...] = ()
    """Of: weights, probabilities, features, labelled set, dropout, extra training, images."""
    tasks: tuple[str, ...] = ANY_TASK
    """The tasks that it serves."""
    cost: str = ""
    """What takes its time and memory."""
    paper: str = ""
    """Where it was published."""
    when: str = ""
    """What it is good for."""


CATALOGUE: catalogue.Catalogue[Strategy, Entry] = catalogue.Catalogue(
    "strategy", "jostle.strategies", Entry, makes=(Strategy, "a jostle.Strategy")
)
register = CATALOGUE.register
describe = CATALOGUE.entry


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(CATALOGUE.names())


def build(name: str, /, **settings: Any) -> Strategy:
    """A strategy by name.

    Args:
        name: A name of the catalogue, or `file.py:name`, a class or function of your own that makes one.
        settings: Its settings, by keyword.
    """
    return CATALOGUE.build(name, settings)
