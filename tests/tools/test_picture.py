"""The picture of the idea holds what was computed."""

from xml.etree import ElementTree

import pytest
from tools import picture

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> ElementTree.Element:
    return ElementTree.fromstring(picture.picture())


def swing(group: ElementTree.Element) -> float:
    """How far an example of the picture moves."""
    style = dict(part.split(":") for part in group.attrib["style"].split(";"))
    return float(style["--x"][:-2]) ** 2 + float(style["--y"][:-2]) ** 2


def test_every_example_and_boundary_is_drawn(drawn: ElementTree.Element) -> None:
    assert len(drawn.findall(f"{SVG}g")) == picture.POOL
    assert len(drawn.findall(f"{SVG}rect")) == picture.LABELED
    assert len(drawn.findall(f"{SVG}path")) == picture.BOUNDARIES
    assert len(drawn.findall(f".//{SVG}circle[@class='ring']")) == picture.PICKS


def test_the_example_that_moves_most_is_picked(drawn: ElementTree.Element) -> None:
    groups = drawn.findall(f"{SVG}g/{SVG}g")
    assert max(groups, key=swing).attrib["class"] == "picked"
    calm = sorted(groups, key=swing)[: picture.POOL // 2]
    assert not [group for group in calm if group.attrib["class"] == "picked"]
