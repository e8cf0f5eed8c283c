"""Settings say what they are, in strings below their fields that help(), editors and the site can read."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pytest

import jostle
from jostle import datasets, embeddings, models, selectors, strategies
from jostle.core import Strategy
from jostle.inference.context import Options
from jostle.utils.registry import Entry, argument_docs, field_docs, with_options


@dataclass
class Parent:
    one: int = 1
    """The first,
    over two lines."""
    two: int = 2


@dataclass
class Child(Parent):
    two: int = 3
    """The second."""
    three: int = 4  # a comment is no docstring
    four: int = 5
    method = None
    """Not of a field."""


def test_docs_are_the_strings_below_fields_and_those_of_base_classes() -> None:
    assert field_docs(Parent) == {"one": "The first, over two lines."}
    assert field_docs(Child) == {"one": "The first, over two lines.", "two": "The second."}


class Words(TypedDict, total=False):
    """Options."""

    loud: bool
    """How loud."""
    often: int


@with_options(Words, {"often": 1})
def say(what: str, **options: Unpack[Words]) -> str:
    """Say it.

    Args:
        what: The word.
    """
    return what * options.get("often", 1)


def test_options_show_in_help() -> None:
    assert str(inspect.signature(say)) == "(what: 'str', *, loud: 'bool' = None, often: 'int' = 1) -> 'str'"
    assert (say.__doc__ or "").splitlines()[-2:] == ["    what: The word.", "    loud: How loud."]
    assert say("a", often=2) == "aa"


def test_the_call_explains_all_that_it_takes() -> None:
    said = argument_docs(jostle.select)
    taken = set(inspect.signature(jostle.select).parameters) - {"settings"}
    assert taken == set(said)
    assert taken == {"strategy", "model", "pool", "n", "probabilities", "features", *Options.__annotations__}


ENTRIES: list[Entry] = [
    *map(strategies.describe, strategies.names()),
    *map(embeddings.describe, embeddings.names()),
    *map(selectors.describe, selectors.names()),
]


def test_every_setting_is_explained() -> None:
    for entry in ENTRIES:
        for setting in entry.settings:
            said = entry.docs.get(setting, "")
            assert said[:1].isupper() or said[:1] in '"k', f"{entry.name}: {setting}"
            assert said.endswith("."), f"{entry.name}: {setting}"


def test_help_shows_what_is_said_of_settings() -> None:
    for entry in ENTRIES:
        if isinstance(entry.made_by, type):
            shown = pydoc.render_doc(entry.made_by, renderer=pydoc.plaintext)
            assert not [name for name in entry.settings if f" {name}: {entry.docs[name]}" not in shown]


@pytest.mark.parametrize("function", [Strategy.select, Strategy.embed])
def test_a_call_explains_all_its_arguments(function: Any) -> None:
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    for name in [*Options.__annotations__, "model", "pool"]:
        assert f"{name}: " in shown.partition("Args:")[2], name
        assert name in inspect.signature(function).parameters


def on_pages() -> Iterator[tuple[str, Any]]:
    """What the pages of the reference show, by name: what modules list, and classes that stand there alone."""
    for page in sorted((Path(__file__).parents[2] / "docs" / "reference" / "api").glob("*.md")):
        for kind, name in re.findall(r"auto(module|class):: (\S+)", page.read_text(encoding="utf-8")):
            if kind == "class":
                yield name, pydoc.locate(name)
            elif "no-members" not in page.read_text(encoding="utf-8"):
                module = importlib.import_module(name)
                yield from ((f"{name}.{each}", getattr(module, each)) for each in module.__all__)
    yield from ((f"jostle.{name}", getattr(jostle, name)) for name in jostle.__all__)


SHOWN = {name: thing for name, thing in on_pages() if getattr(thing, "__module__", "").startswith("jostle")}
CLASSES = {
    name: kind
    for name, kind in SHOWN.items()
    if inspect.isclass(kind) and not getattr(kind, "_is_protocol", False)
}
SETTINGS_ONLY = ("jostle.strategies", "jostle.embeddings")  # of their classes the pages show settings


def functions() -> Iterator[tuple[str, Any]]:
    yield from ((name, thing) for name, thing in SHOWN.items() if inspect.isroutine(thing))
    for name, kind in CLASSES.items():
        methods = {} if kind.__module__.startswith(SETTINGS_ONLY) else vars(kind)
        for method, thing in methods.items():
            promised = any(method in vars(base) for base in kind.__mro__[1:])  # and explained there
            function = getattr(thing, "__func__", thing)
            if inspect.isfunction(function) and method[0] != "_" and not promised:
                yield f"{name}.{method}", function


def test_public_functions_explain_their_arguments() -> None:
    for name, function in functions():
        said = inspect.getdoc(function) or ""
        for argument in inspect.signature(function).parameters.keys() - {"self", "cls"}:
            assert re.search(rf"\b{argument}\b", said), f"{name}: {argument}"


def test_public_classes_explain_what_they_are_made_of() -> None:
    for name, kind in CLASSES.items():
        explained = {*field_docs(kind), *argument_docs(kind)}
        assert [each for each in taken_by(kind) if each not in explained] == [], name


def taken_by(kind: Any) -> Iterable[str]:
    if kind is Options:
        return kind.__annotations__
    plain = issubclass(kind, Exception) and "__init__" not in vars(kind)  # takes a message
    return () if plain else inspect.signature(kind).parameters


BUILT: list[Entry] = [
    *map(models.REGISTRY.entry, models.names()),
    *map(datasets.entry, [*datasets.names(), *(f"{scheme}:..." for scheme in datasets.OWN)]),
]


def test_networks_and_data_sets_explain_their_settings() -> None:
    for entry in BUILT:
        settings = [
            setting for setting in entry.settings if setting != "root"
        ]  # which `datasets.load` explains
        assert [each for each in settings if not entry.docs.get(each, "").endswith(".")] == [], entry.name


def test_arguments_are_read_from_docstrings() -> None:
    def documented(one: int, two: int) -> None:
        """Do it.

        Args:
            one: The first: a number.
            two: The second,
                over two lines.

        More, so: no argument.
        """

    assert argument_docs(documented) == {"one": "The first: a number.", "two": "The second, over two lines."}
    assert argument_docs(lambda: None) == {}
