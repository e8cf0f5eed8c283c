"""The view that finds: a map, a region and a search that are answered at once and undone; near-copies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answering import labeled
from browser_pages import SHOWN, answered, answered_by, expect, problems
from labeling_data import COLORS, colored_folder, scene
from running_server import Running, served

from jostle.labeling.training.example_map import MapBuilder

Visit = Callable[..., Any]
# Pixels of the map that are no background, as positions in the window.
DOTS = """() => { const c = document.querySelector(".dots"), { left, top, width } = c.getBoundingClientRect();
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, found = [];
  for (let i = 0; i < d.length; i += 4) if (d[i] !== d[0] || d[i + 1] !== d[1]) {
    found.push([left + (i / 4 % c.width) * width / c.width, top + Math.floor(i / 4 / c.width) * width / c.width]);
  }
  return found; }"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Pictures by their pixels, some of them answered, with a model and a map."""
    folder = tmp_path_factory.mktemp("find")
    data = colored_folder(folder / "colors")
    with served(data, folder / "project", answers=COLORS, encoder="pixels") as running:
        labeled(running.session, 20, "Bo")
        running.session.train()
        building = MapBuilder(running.session)
        while building.step():
            pass
        yield running


def test_a_region_of_the_map_is_answered_and_taken_back(server: Running, visit: Visit) -> None:
    page = visit(server, view="find")
    page.wait_for_selector(".legend span")
    page.wait_for_function(f"() => ({DOTS})().length > 300")
    before, drawn = answered(server), len(page.evaluate(DOTS))
    box = page.query_selector(".dots").bounding_box()
    left, top, width, height = (box[name] for name in ("x", "y", "width", "height"))
    page.mouse.move(left + width / 2, top + height / 2)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"() => ({DOTS})().length !== {drawn}")  # it zooms
    page.click("text=Whole map")
    page.keyboard.down("Shift")
    page.mouse.move(left + 5, top + 5)
    page.mouse.down()
    for x, y in ((0.98, 0.02), (0.98, 0.98), (0.02, 0.98)):
        page.mouse.move(left + x * width, top + y * height, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_selector(".clear:has-text('in the region')")
    page.wait_for_selector(".tiles[aria-busy=false] .tile img")
    page.click(".chips button:text-is('Unanswered')")
    page.wait_for_selector(".chips button[aria-pressed=true]:text-is('Unanswered')")
    page.wait_for_selector(".tiles[aria-busy=false] .tile img")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.tile img')].slice(0, 4).every((each) => each.naturalWidth)"
    )
    for face in page.query_selector_all(".tile .face")[:4]:
        face.click()
    page.keyboard.press("3")
    expect(page, lambda: answered(server), before + 4)
    page.keyboard.press("Backspace")
    expect(page, lambda: answered(server), before)


def test_words_and_likeness_find_examples(server: Running, visit: Visit) -> None:
    page = visit(server, view="find")
    page.fill("input[type=search]", "-blue")
    page.wait_for_function(
        """() => {
          const names = [...document.querySelectorAll(".tile .face")].map((each) => each.ariaLabel);
          return names.length > 0 && names.every((each) => each.includes("-blue"));
        }"""
    )
    first = page.get_attribute(".tile .face >> nth=0", "aria-label")
    page.click(".tile .like >> nth=0")
    page.wait_for_selector(".clear:has-text('like')")
    page.wait_for_function(
        "name => document.querySelector('.tiles[aria-busy=false] .face')?.getAttribute('aria-label') === name",
        arg=first,
    )
    page.click(".menu summary:has-text('Order')")
    page.click(".menu[open] button:has-text('Least certain first')")
    page.wait_for_selector(".menu summary:has-text('Least certain first')")
    assert not page.query_selector_all("select")


def test_a_dot_shows_its_example(server: Running, visit: Visit) -> None:
    page = visit(server, view="find")
    page.wait_for_selector(".legend span")
    page.wait_for_function(f"() => ({DOTS})().length > 300")
    for dot in page.evaluate(DOTS)[::100]:  # the edge of one may be a little outside
        page.mouse.move(*dot)
        page.wait_for_timeout(300)
        if page.query_selector(".card:not([hidden]) img"):
            break
    page.wait_for_selector(".card:not([hidden]) b:has-text('.png')")


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Running]:
    """Two scenes, one of them with two near-copies, which are known when the page opens."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    scene(1).save(folder / "1.png")
    for name, quality in (("0", 95), ("0-again", 60), ("0-poor", 30)):
        scene(0).save(folder / f"{name}.jpg", quality=quality)
    with served(folder, tmp_path / "project", answers=["cat", "dog"], near_copies=True) as running:
        yield running


def test_a_group_is_one_question_and_what_is_split_off_comes_next(scenes: Running, visit: Visit) -> None:
    page = visit(scenes)
    page.wait_for_selector(SHOWN)
    if page.get_attribute(".stage", "data-name") == "1.png":
        answered_by(page, "1")
    page.wait_for_selector(".copies b:text-is('3 alike')")
    page.wait_for_selector(".strip button:nth-child(2) img")
    assert problems(page) == []
    page.click(".strip button:first-child")
    page.wait_for_selector(".copies b:text-is('2 alike')")
    page.keyboard.press("s")
    page.wait_for_selector(".copies", state="hidden")
    before = answered(scenes)
    for number in range(3):
        answered_by(page, "2") if number < 2 else page.keyboard.press("2")
        expect(page, lambda done=before + number + 1: answered(scenes) == done, True)


def test_find_shows_groups_as_one_and_splits_them(scenes: Running, visit: Visit) -> None:
    page = visit(scenes, view="find")
    page.click("text=Near-copies")
    page.click(".tile .alike:text-is('3 alike')")
    page.wait_for_selector("dialog .strip button:nth-child(2) img")
    assert problems(page) == []
    page.click("dialog .strip button:first-child")
    page.wait_for_selector("dialog .copies b:text-is('2 alike')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tile .alike:text-is('2 alike')")
