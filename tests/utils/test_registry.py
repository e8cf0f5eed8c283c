"""One registry for everything: the same register, the same refusals, plug-ins looked for once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from jostle import datasets, embeddings, models, selectors
from jostle.strategies.registry import REGISTRY
from jostle.utils import registry
from jostle.utils.registry import Entry, Registry

EVERY: dict[str, Registry[Any, Any]] = {
    "strategies": REGISTRY,
    "embeddings": embeddings.REGISTRY,
    "selectors": selectors.REGISTRY,
    "datasets": datasets.REGISTRY,
    "models": models.REGISTRY,
}


def small() -> Registry[list[Any], Entry]:
    return Registry("thing", "jostle.things", Entry, makes=(list, "a list"), also=("other:PATH",))


def pair(one: int = 1, two: int = 2) -> list[int]:
    """Two numbers.

    More of it.
    """
    return [one, two]


def triple(one: int, rest: str = "") -> list[Any]:
    return [one, rest, rest]


@pytest.fixture(params=EVERY)
def each(request: pytest.FixtureRequest) -> Iterator[Registry[Any, Any]]:
    with EVERY[request.param].restored():
        yield EVERY[request.param]


def test_a_taken_name_is_refused_and_the_same_definition_replaces_it(each: Registry[Any, Any]) -> None:
    taken = each.names()[0]
    with pytest.raises(ValueError, match=rf"the {each.kind} name '{taken}' is taken by \w+: choose another"):
        each.register(taken)(pair)
    kept = each.entry(taken)
    each.register(taken)(kept.build)  # as a notebook cell that runs twice
    assert each.entry(taken).made_by is kept.made_by


def test_every_registry_takes_what_a_file_defines(each: Registry[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('def made(size=3):\n    """Mine."""\n    return size\n')
    entry = each.entry(f"{tmp_path}/mine.py:made")
    assert (entry.idea, entry.settings, entry.build()) == ("Mine.", {"size": 3}, 3)
    with pytest.raises(ValueError, match=f"unknown {each.kind} 'nothing'"):
        each.entry("nothing")


def test_what_is_registered_meanwhile_is_forgotten() -> None:
    things = small()
    things.register("pair")(pair)
    with things.restored():
        things.register("triple")(triple)
        assert things.names() == ["pair", "triple"]
    assert things.names() == ["pair"]


def test_entries_know_settings_and_words() -> None:
    things = small()
    things.enter({"pair": pair, "tens": partial(pair, two=10)})
    things.register("triple", idea="Three.")(triple)
    things.register("hidden", listed=False)(triple)
    assert things.names() == ["pair", "tens", "triple"]
    assert things.entry("pair").idea == things.entry("tens").line == "Two numbers."
    assert things.entry("tens").settings == {"one": 1, "two": 10}
    assert things.entry("tens").fixed == {"two": 10}
    assert things.entry("triple").idea == "Three."
    assert things.build("tens", {"one": 0}) == [0, 10]
    assert things.build("hidden", {"one": 0}) == [0, "", ""]


def test_a_partial_with_other_settings_is_another_definition() -> None:
    things = small()
    things.register("pair")(pair)
    with pytest.raises(ValueError, match="taken by pair"):
        things.register("pair")(partial(pair, one=3))


def test_refusals_of_what_is_built() -> None:
    things = small()
    things.enter({"pair": pair, "triple": triple, "one": lambda: 1})  # type: ignore[dict-item]
    for name, settings, words in (
        ("pear", {}, r"unknown thing 'pear'; did you mean 'pair'\? \(known: one, other:PATH, pair, triple\)"),
        ("pair", {"tow": 1}, "unknown setting of pair 'tow'; did you mean 'two'"),
        ("pair", {"one": "x"}, "pair: one takes a whole number; got 'x'"),
        ("triple", {}, "triple needs a value for one"),
        ("one", {}, "one made int; expected a list"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            things.build(name, settings)


class Points:
    """Stands for the packages that are installed; counts how often they are looked for."""

    def __init__(self, **values: str) -> None:
        self.values, self.asked = values, 0

    def __call__(self, group: str) -> list[EntryPoint]:
        self.asked += 1
        return [EntryPoint(name, value, group) for name, value in self.values.items()]


def test_plug_ins_are_looked_for_once_and_loaded_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    points = Points(plugged=f"{__name__}:pair", broken="no_such_package:thing", triple=f"{__name__}:pair")
    monkeypatch.setattr(registry, "entry_points", points)
    things = small()
    things.register("triple")(triple)
    with pytest.warns(UserWarning, match=r"offers the thing 'triple', which is taken: it is left out"):
        assert things.names() == ["triple", "plugged", "broken"]
    assert things.build("plugged", {"one": 5}) == [5, 2]
    assert things.build("triple", {"one": 5}) == [5, "", ""]
    assert things.names() == ["triple", "plugged", "broken"]
    assert points.asked == 1
    with pytest.raises(ValueError, match=r"the thing 'broken' of no_such_package:thing cannot be loaded"):
        things.entry("broken")
    with pytest.warns(UserWarning, match=r"'broken' .* cannot be loaded .*: it is left out"):
        assert [entry.name for entry in things.entries()] == ["triple", "plugged"]
