"""Everybody can use the page: by keys alone, without keys, with keys of their own, and before they are let in."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser_pages import SHOWN, answered_by, expect, on_disk, problems, table
from running_server import Running, served

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Long texts in two classes; every test has people of its own."""
    folder = tmp_path_factory.mktemp("access")
    lines = "\n".join(f"line {line}" for line in range(200))
    data = table(folder / "tickets.csv", ["id", "text"], ([i, f"ticket {i}\n{lines}"] for i in range(30)))
    with served(data, folder / "project", answers=["good", "bad"]) as running:
        yield running


def test_the_focus_stays_on_the_button_that_a_key_pressed(server: Running, visit: Visit) -> None:
    page = visit(server)
    page.wait_for_selector(SHOWN)
    page.focus("[data-class=bad]")
    answered_by(page, "Enter")
    expect(page, lambda: page.evaluate("document.activeElement.dataset.class"), "bad")
    answered_by(page, "Enter")
    expect(page, lambda: on_disk(server, "Ada"), [("answer", 1), ("answer", 1)])


def test_a_double_click_is_one_answer(server: Running, visit: Visit) -> None:
    page = visit(server, name="Bo")
    page.wait_for_selector(SHOWN)
    first = page.get_attribute(".stage", "data-key")
    page.click("[data-class=bad]")
    page.wait_for_selector(f".stage:not([data-key='{first}'])")
    page.dispatch_event("[data-class=bad]", "click", {"detail": 2})  # at once: the second half of it
    page.wait_for_timeout(500)
    assert on_disk(server, "Bo") == [("answer", 1)]
    page.click("[data-class=good]")
    expect(page, lambda: on_disk(server, "Bo"), [("answer", 1), ("answer", 0)])


def test_keys_scroll_a_long_text_and_the_next_one_begins_at_its_top(server: Running, visit: Visit) -> None:
    page = visit(server, name="Cy")
    page.wait_for_selector(SHOWN)
    page.keyboard.press("PageDown")
    page.wait_for_function("() => document.querySelector('.stage').scrollTop > 200")
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('.stage').scrollTop === 0")
    before = page.get_attribute(".stage", "data-key")
    page.click("[data-class=bad]")  # the focus goes to the example, and keys still scroll
    page.wait_for_function("key => document.querySelector('.stage').dataset.key !== key", arg=before)
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('.stage').scrollTop > 200")
    answered_by(page, "1")
    page.wait_for_function("() => document.querySelector('.stage').scrollTop === 0")


def test_keys_can_be_changed_and_switched_off(server: Running, visit: Visit) -> None:
    page = visit(server, name="Di")
    page.wait_for_selector(SHOWN)
    page.keyboard.press("?")
    page.click("[aria-label='Change the key for: good']")
    page.keyboard.press("q")
    page.wait_for_selector(".keys div:has(dd:text-is('good')) kbd:text-is('Q')")
    page.keyboard.press("Escape")
    answered_by(page, "q")
    page.keyboard.press("1")  # no longer a key of anything
    page.click("[data-action=keys]")
    page.uncheck("dialog input[type=checkbox]")
    assert problems(page) == []
    page.keyboard.press("Escape")
    for key in ("q", "b", " ", "Backspace"):
        page.keyboard.press(key)
    expect(page, lambda: on_disk(server, "Di"), [("answer", 0)])
    page.reload()
    page.wait_for_selector(SHOWN)
    assert not page.query_selector_all(".class kbd"), "off is kept"


def test_who_has_no_token_is_told_what_to_do(server: Running, visit: Visit, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(server.origin)
    assert problems(page) == []
    page.fill("input[name=token]", "a-token-for-tests")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] input[name=name]")
    assert problems(page) == []
    assert "token=" not in page.url
    context.close()


def test_unsure_notes_and_flags_by_keys(server: Running, visit: Visit) -> None:
    page = visit(server, name="Eve")
    page.wait_for_selector(SHOWN)
    name = page.get_attribute(".stage", "data-name")
    page.keyboard.press(",")
    page.wait_for_selector("dialog[open] textarea")
    assert problems(page) == []
    page.keyboard.type("1 odd <b>one</b>")  # a note, though 1 is a class
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-action=note][aria-pressed=true]")
    page.keyboard.press("!")
    page.wait_for_selector("[data-action=flag][aria-pressed=true]")
    answered_by(page, "u")
    assert on_disk(server, "Eve") == [("skip", None)]
    page.goto(f"{server.origin}/#review")
    page.click("text=Remarks")
    item = page.wait_for_selector(f".item:has(h2:text-is('{name}'))")
    for words in ("unsure by Eve", "flagged by Eve", "“1 odd <b>one</b>” by Eve"):
        assert words in item.inner_text()
    page.fill("input[type=search]", "ODD")
    page.wait_for_selector(".item:has-text('flagged')", state="detached")
    assert "odd" in page.inner_text(".item")
    assert problems(page) == []
