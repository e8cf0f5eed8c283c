"""Settings say what they are, in strings below their fields that help(), editors and the site can read."""

from __future__ import annotations

import inspect
import pydoc
import re
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack

import pytest

import jostle
from jostle import datasets, embeddings, models, selectors, strategies
from jostle.core import Embedded, Query, Strategy
from jostle.plumbing.catalogue import Entry
from jostle.plumbing.documented import argument_docs, field_docs, with_options
from jostle.scoring.options import Options


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


def test_a_class_without_source_says_nothing() -> None:
    made: dict[str, Any] = {}
    exec("class Made:\n    one: int = 1\n    'The first.'", made)
    assert field_docs(made["Made"]) == {}
    assert field_docs(int) == {}


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


def test_further_keywords_stay_after_the_options() -> None:
    @with_options(Words, {})
    def shout(what: str, **settings: Any) -> str:
        """Say it."""
        return what + str(settings)

    assert list(inspect.signature(shout).parameters) == ["what", "loud", "often", "settings"]
    assert shout("a", often=1, pitch=2) == "a{'often': 1, 'pitch': 2}"


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


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{type(entry).__module__}-{entry.name}")
def test_every_setting_is_explained(entry: Entry) -> None:
    for setting in entry.settings:
        said = entry.docs.get(setting, "")
        assert said[:1].isupper() or said[:1] in '"k', f"{entry.name}: {setting}"
        assert said.endswith("."), f"{entry.name}: {setting}"


@pytest.mark.parametrize("kind", [Query, Embedded, Entry, strategies.Entry])
def test_public_values_explain_their_fields(kind: Any) -> None:
    explained = field_docs(kind)
    assert [each.name for each in fields(kind) if each.name not in explained] in ([], ["name"])


@pytest.mark.parametrize("function", [Strategy.select, Strategy.embed])
def test_a_call_explains_all_its_arguments(function: Any) -> None:
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    for name in [*Options.__annotations__, "model", "pool"]:
        assert f"{name}: " in shown.partition("Args:")[2], name
        assert name in inspect.signature(function).parameters


PUBLIC = [
    pytest.param(thing, id=f"{room.__name__}.{name}")
    for room in (jostle, strategies, embeddings, selectors, models, datasets)
    for name in room.__all__
    if inspect.isroutine(thing := getattr(room, name)) and not isinstance(thing, type)
]


@pytest.mark.parametrize("function", PUBLIC)
def test_public_functions_explain_their_arguments(function: Any) -> None:
    said = inspect.getdoc(function) or ""
    for name in inspect.signature(function).parameters:
        assert re.search(rf"(^|\s|`){name}(: |`|=|\b)", said), f"{function.__qualname__}: {name}"


BUILT: list[Entry] = [
    *map(models.CATALOGUE.entry, models.names()),
    *map(datasets.entry, [*datasets.names(), *(f"{scheme}:..." for scheme in datasets.OWN)]),
]


@pytest.mark.parametrize("entry", BUILT, ids=lambda entry: entry.name)
def test_networks_and_data_sets_explain_their_settings(entry: Entry) -> None:
    settings = [setting for setting in entry.settings if setting != "root"]  # which `datasets.load` explains
    assert [setting for setting in settings if not entry.docs.get(setting, "").endswith(".")] == []


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
