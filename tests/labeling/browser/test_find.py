"""The view that finds: a map that is drawn and moved, a region and a search that are answered at once and undone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from answering import labeled
from browser_pages import answered, expect
from labeling_data import COLORS, colored_folder
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
