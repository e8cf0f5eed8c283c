"""The view that finds: a map that is drawn and moved, a region and a search that are answered at once and undone."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser_pages import answered, expect
from tools.serving import Person, Server

from jostle.labeling.sources import Digits

Visit = Callable[..., Any]
TIMEOUT = 300  # seconds that a map may take on a busy machine
DARK = """() => { const c = document.querySelector(".dots");
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] !== d[0] || d[i + 1] !== d[1]; return n; }"""


def call(port: int, path: str) -> Any:
    return Person("probe", port).call("GET", path)[1]


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Digits by their pixels, some of them answered, with a model and a map."""
    truth = Digits().column("digit")
    words = ["--demo", "--round-size", "30", "--encoder", "pixels"]
    with Server(words, tmp_path_factory.mktemp("find")) as running:
        somebody = Person("Bo", running.port)
        for _ in range(40):
            question = somebody.questions(1)[0]
            somebody.answer(question["key"], str(truth[question["name"]]))
        until(lambda: call(running.port, "/api/progress")["models"] > 0)
        until(lambda: call(running.port, "/api/map")["stage"] == "neighbors")
        yield running


def test_a_region_of_the_map_is_answered_and_taken_back(server: Server, visit: Visit) -> None:
    page = visit(server, view="find")
    page.wait_for_selector(".legend span")
    page.wait_for_function(f"() => ({DARK})() > 500")
    before, drawn = answered(server), page.evaluate(DARK)
    box = page.query_selector(".dots").bounding_box()
    left, top, width, height = (box[name] for name in ("x", "y", "width", "height"))
    page.mouse.move(left + width / 2, top + height / 2)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"() => ({DARK})() !== {drawn}")  # it zooms
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


def test_words_and_likeness_find_examples(server: Server, visit: Visit) -> None:
    page = visit(server, view="find")
    page.fill("input[type=search]", "digit-001")
    page.wait_for_function(
        """() => {
          const names = [...document.querySelectorAll(".tile .face")].map((each) => each.ariaLabel);
          return names.length > 0 && names.every((each) => each.startsWith("digit-001"));
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


def test_a_dot_shows_its_example(server: Server, visit: Visit) -> None:
    page = visit(server, view="find")
    page.wait_for_selector(".legend span")
    page.wait_for_function(f"() => ({DARK})() > 500")
    box = page.query_selector(".dots").bounding_box()
    for step in range(60):
        page.mouse.move(
            box["x"] + box["width"] * (0.2 + step / 100), box["y"] + box["height"] * (0.3 + step / 150)
        )
        page.wait_for_timeout(300)
        if page.query_selector(".card:not([hidden]) img"):
            break
    page.wait_for_selector(".card:not([hidden]) b:has-text('digit-')")
