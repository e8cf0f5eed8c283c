"""The picture of the rooms and their table are what the imports say, and lines lead where they should."""

from pathlib import Path

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
