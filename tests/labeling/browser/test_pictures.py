"""Every view as a picture: wide and as narrow as a phone, light and dark; nothing sticks out, everything can be read.

`JOSTLE_PICTURES=docs/figures` keeps the pictures of the documentation.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import problems
from tools.serving import Person, Server

from jostle.labeling.sources import Digits

VIEWS = ("label", "grid", "find", "review", "progress")
SIZES = {
    "wide": {"width": 1280, "height": 800},
    "phone": {"width": 390, "height": 844},
    "sideways": {"width": 844, "height": 390},
    "zoomed": {"width": 640, "height": 400},  # a window of 1280 x 800 at 200 %
}
KEPT = {
    ("find", "wide", "light"),
    ("label", "wide", "light"),
    ("grid", "wide", "light"),
    ("review", "wide", "light"),
    ("progress", "wide", "light"),
}
KEPT |= {("label", "phone", "dark"), ("progress", "phone", "dark")}
TIMEOUT = 300  # seconds that a model may take on a busy machine
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

ALL_LOADED = """() => [...document.images].every((each) =>
  each.complete || each.getBoundingClientRect().top > innerHeight)"""  # others are loaded when they come into view


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The digits, of which two people have answered some, with a few slips."""
    words = ["--demo", "--goal", "90%", "--overlap", "10%", "--round-size", "40"]
    truth, slips = Digits().column("digit"), {"7": "1", "8": "3", "9": "4"}
    with Server(words, tmp_path_factory.mktemp("pictures")) as running:
        people = [Person(name, running.port) for name in ("Ada", "Bo")]
        for count in range(330 if "JOSTLE_PICTURES" in os.environ else 90):
            question = people[count % 2].questions(1)[0]
            right = str(truth[question["name"]])
            answer = slips.pop(right) if right in slips and count > 20 else right  # one slip for each
            people[count % 2].answer(question["key"], answer, seconds=1.5)
            if count % 40 == 39:
                another_model(running)
        another_model(running)
        for person in people:
            person.call("POST", "/api/release", {"person": person.name})
        yield running


def another_model(server: Server) -> None:
    """Ask for a model that has learned from all answers so far, and wait until it is there."""
    somebody = Person("probe", server.port)
    before = somebody.call("GET", "/api/progress")[1]["round"]
    somebody.call("POST", "/api/train", {"person": somebody.name})
    end = time.monotonic() + TIMEOUT
    while somebody.call("GET", "/api/progress")[1]["round"] == before:
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("size", "scheme"),
    [("wide", "light"), ("phone", "dark"), ("sideways", "light"), ("zoomed", "dark")],
)
def test_every_view(
    server: Server, visit: Callable[..., Any], size: str, scheme: str, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("JOSTLE_PICTURES", tmp_path))
    page = visit(server, viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    for view in VIEWS:
        page.goto(f"{server.origin}/#{view}")
        page.wait_for_selector(
            {
                "label": ".stage img",
                "grid": ".tile img",
                "find": ".dots",
                "review": ".item img",
                "progress": ".point",
            }[view]
        )
        if view == "find":
            page.fill("input[type=search]", "digit-00")
            page.wait_for_selector(".tiles[aria-busy=false] .tile img")
        page.wait_for_function(ALL_LOADED)
        width, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= inside, f"{view} is wider than the window"
        assert page.evaluate(TOO_PALE) == [], f"{view} has words that are hard to read"
        assert page.evaluate(TOO_SMALL) == [], f"{view} has buttons that a finger misses"
        assert problems(page) == [], view
        if view == "label":
            assert page.evaluate(HIDDEN_ANSWERS) == []
        if folder == tmp_path or (view, size, scheme) in KEPT:
            page.screenshot(path=folder / f"label-{view}-{size}.png")


def test_everything_can_be_reached_and_has_a_name(server: Server, visit: Callable[..., Any]) -> None:
    page = visit(server)
    for view in VIEWS:
        page.goto(f"{server.origin}/#{view}")
        page.wait_for_selector(".stage img, .tile, .find, .item, .point")
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("button, a, input, select, img, summary, [role=img]")]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.getAttribute("aria-label") || each.textContent || each.alt || each.title).trim())
            .map((each) => each.outerHTML)"""
        )
        assert unnamed == []
        assert page.get_attribute(f"nav a[href='#{view}']", "aria-current") == "page"
    page.goto(f"{server.origin}/#label")
    page.wait_for_selector(".stage img")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the example"
