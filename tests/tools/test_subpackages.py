"""The picture of the subpackages and their table are what the imports say, and lines lead where they should."""

from pathlib import Path

from tools import subpackages

DOCS = Path(__file__).parents[2] / "docs"
IMPORTS: dict[str, set[str]] = {
    "top": {"left", "right", "lowest"},
    "left": {"low", "lowest"},
    "right": {"lowest"},
    "low": {"lowest"},
    "lowest": set(),
}


def test_the_page_and_the_picture_are_those_of_the_imports() -> None:
    written = (DOCS / "project" / "design.md").read_text()
    assert written == subpackages.page(written), "run `make docs`"
    assert (DOCS / "figures" / "subpackages.svg").read_text() == subpackages.picture(), "run `make docs`"


def test_subpackages_are_those_on_disk_with_what_they_import() -> None:
    found = subpackages.subpackages()
    folders = {path.parent.name for path in subpackages.ROOT.glob("*/__init__.py")}
    assert set(found) == folders | {"rng"}
    assert found["utils"] == {"rng"}
    assert found["rng"] == set()
    assert {"inference", "selectors"} <= found["core"]
    assert "strategies" not in set().union(*(found[part] for part in ("embeddings", "core", "inference")))


def test_only_direct_lines_are_drawn() -> None:
    assert subpackages.below("top", IMPORTS) == {"left", "right", "low", "lowest"}
    assert subpackages.direct("top", IMPORTS) == ["left", "right"]
    assert subpackages.direct("left", IMPORTS) == ["low"]


def test_subpackages_lie_below_all_that_import_from_them() -> None:
    assert subpackages.lowest(IMPORTS) == ["lowest"]
    assert subpackages.levels_of(IMPORTS) == [["lowest"], ["low"], ["left", "right"], ["top"]]
    levels = subpackages.levels_of(subpackages.subpackages())
    height = {part: number for number, level in enumerate(levels) for part in level}
    assert all(
        height[other] < height[part] for part, others in subpackages.subpackages().items() for other in others
    )
