"""Every view as a picture: wide and as narrow as a phone, light and dark; nothing sticks out, everything can be read.

`JOSTLE_PICTURES=docs/figures` keeps the pictures of the documentation.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answering import color_in
from browser_pages import problems
from labeling_data import COLORS, colored_folder
from running_server import Running, served

from jostle.labeling.sources import DEMO, DIGIT_CLASSES, Digits
from jostle.labeling.training.example_map import MapBuilder

FIGURES = os.environ.get("JOSTLE_PICTURES")
VIEWS = {  # with what each shows
    "label": ".stage img",
    "grid": ".tile img",
    "find": ".dots",
    "review": ".item img",
    "progress": ".point",
}
SIZES = {
    "wide": {"width": 1280, "height": 800},
    "phone": {"width": 390, "height": 844},
    "sideways": {"width": 844, "height": 390},
    "zoomed": {"width": 640, "height": 400},  # a window of 1280 x 800 at 200 %
}
KEPT = {(view, "wide") for view in VIEWS} | {("label", "phone"), ("progress", "phone")}
TOO_PALE = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((each) => each / 255);
    const linear = [r, g, b].map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const words = [...document.querySelectorAll("body *")].filter((each) =>
    [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && each.checkVisibility() &&
    !each.closest("svg, option, [disabled], .toast, [aria-hidden]"));
  return words.map((each) => {
    const [a, b] = [light(getComputedStyle(each).color), light(ground(each))];
    return [each.textContent.trim().slice(0, 30), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  }).filter(([, contrast]) => contrast < 4.5);
}"""

TOO_SMALL = """() => [...document.querySelectorAll("button, nav a, select, summary, input:not([type=checkbox])")]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 43.5)
  .map((each) => each.outerHTML.slice(0, 80))"""

HIDDEN_ANSWERS = """() => [...document.querySelectorAll(".class, .tool")].filter((each) => {
  if (each.matches(".tool") && !each.checkVisibility()) return false; // of a panel that is closed
  const { left, top, right, bottom } = each.getBoundingClientRect();
  return left < 0 || top < 0 || right > innerWidth || bottom > innerHeight ||
    !each.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
}).map((each) => each.textContent)"""

UNNAMED = """() => [...document.querySelectorAll("button, a, input, select, img, summary, [role=img]")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.getAttribute("aria-label") || each.textContent || each.alt || each.title).trim())
  .map((each) => each.outerHTML)"""

ALL_LOADED = """() => [...document.images].every((each) =>
  each.complete || each.getBoundingClientRect().top > innerHeight)"""  # others are loaded when they come into view


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Pictures, for the documentation digits, of which two people have answered some, with a few slips."""
    folder = tmp_path_factory.mktemp("pictures")
    data, classes = (DEMO, DIGIT_CLASSES) if FIGURES else (colored_folder(folder / "colors"), COLORS)
    settings = {"goal": "90%", "overlap": 0.1, "batch": 40, "encoder": None if FIGURES else "pixels"}
    with served(data, folder / "project", answers=classes, **settings) as running:
        truth = Digits().column("digit") if FIGURES else None
        slips = dict(zip(classes[:3], classes[1:4] or classes, strict=False)) | {classes[-1]: classes[0]}
        running.session.train()
        for count in range(330 if FIGURES else 60):
            [question] = running.session.ask(1, person := ("Ada", "Bo")[count % 2])
            right = str(truth[question.name]) if truth else color_in(question.name)
            said = slips.pop(right) if right in slips and count > 20 else right  # one slip for each
            running.session.tell(question.key, said, person, seconds=1.5)
            if count % 30 == 29:
                running.session.train()
        building = MapBuilder(running.session)
        while building.step():
            pass
        for person in ("Ada", "Bo"):
            running.session.release(person)
        yield running


@pytest.mark.parametrize(
    ("size", "scheme"), [("wide", "light"), ("phone", "dark"), ("sideways", "light"), ("zoomed", "dark")]
)
def test_every_view(server: Running, visit: Callable[..., Any], size: str, scheme: str) -> None:
    page = visit(server, viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    for view, shows in VIEWS.items():
        page.goto(f"{server.origin}/#{view}")
        page.wait_for_selector(shows)
        if view == "find":
            page.fill("input[type=search]", "00")
            page.wait_for_selector(".tiles[aria-busy=false] .tile img")
        page.wait_for_function(ALL_LOADED)
        width, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= inside, f"{view} is wider than the window"
        assert page.evaluate(TOO_SMALL) == [], f"{view} has buttons that a finger misses"
        if size in ("wide", "phone"):  # the others show the same in other places
            assert page.evaluate(TOO_PALE) == [], f"{view} has words that are hard to read"
            assert problems(page) == [], view
            assert page.evaluate(UNNAMED) == [], view
        if view == "label":
            assert page.evaluate(HIDDEN_ANSWERS) == []
        assert page.get_attribute(f"nav a[href='#{view}']", "aria-current") == "page"
        if FIGURES and (view, size) in KEPT:
            page.screenshot(path=Path(FIGURES) / f"label-{view}-{size}.png")


def test_the_first_tab_leads_to_the_example(server: Running, visit: Callable[..., Any]) -> None:
    page = visit(server)
    page.wait_for_selector(".stage img")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the example"
