"""The picture of the rooms and their table are what the imports say, and lines lead where they should."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools import rooms

DOCS = Path(__file__).parents[2] / "docs"
HOUSE: dict[str, set[str]] = {
    "roof": {"left", "right", "ground"},
    "left": {"cellar", "ground"},
    "right": {"ground"},
    "cellar": {"ground"},
    "ground": set(),
}


def test_the_page_and_the_picture_are_those_of_the_imports() -> None:
    written = (DOCS / "project" / "design.md").read_text()
    assert written == rooms.page(written), "run `make docs`"
    assert (DOCS / "figures" / "rooms.svg").read_text() == rooms.picture(), "run `make docs`"


def test_rooms_are_those_on_disk_with_what_they_import() -> None:
    found = rooms.rooms()
    folders = {path.parent.name for path in rooms.ROOT.glob("*/__init__.py")}
    assert set(found) == folders | {"rng"}
    assert found["utils"] == {"rng"}
    assert found["rng"] == set()
    assert {"inference", "selectors"} <= found["core"]
    assert "strategies" not in set().union(*(found[room] for room in ("embeddings", "core", "inference")))


def test_only_direct_lines_are_drawn() -> None:
    assert rooms.below("roof", HOUSE) == {"left", "right", "cellar", "ground"}
    assert rooms.direct("roof", HOUSE) == ["left", "right"]
    assert rooms.direct("left", HOUSE) == ["cellar"]


def test_rooms_lie_below_all_that_stand_on_them() -> None:
    assert rooms.ground(HOUSE) == ["ground"]
    assert rooms.floors(HOUSE) == [["ground"], ["cellar"], ["left", "right"], ["roof"]]
    levels = rooms.floors(rooms.rooms())
    height = {room: floor for floor, level in enumerate(levels) for room in level}
    assert all(height[other] < height[room] for room, others in rooms.rooms().items() for other in others)


def test_the_picture_has_a_box_for_each_room_inside_its_frame() -> None:
    drawn = ElementTree.fromstring(rooms.picture())
    names = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(map(str, names)) == sorted(rooms.rooms())
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for each in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, wide, tall = (float(each.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + tall <= height
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)", rooms.picture())


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        rooms.page("nothing here")
