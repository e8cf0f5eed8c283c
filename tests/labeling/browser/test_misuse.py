"""Numbers, several and many classes as people give them, and their slips: stray keys, two tabs, missing pictures."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answering import labeled
from browser_pages import SHOWN, answered_by, expect, on_disk, problems, table
from labeling_data import COLORS
from running_server import Running, served
from tools.serving import TOKEN

from jostle.labeling import Answers

Visit = Callable[..., Any]
MANY = "ant,bear,cat,dog,eel,fox,goat,hen,ibis,jay,kiwi,lynx,mole,polar bear,Émeu"


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Houses whose price is asked for; here as below every test has people of its own."""
    folder = tmp_path_factory.mktemp("prices")
    data = table(folder / "houses.csv", ["id", "area", "price"], ([i, 40 + i, ""] for i in range(30)))
    asked = {"answers": Answers("number"), "target": "price", "hide": ["price"]}
    with served(data, folder / "project", **asked) as running:
        yield running


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Long texts, several classes of which can be right."""
    folder = tmp_path_factory.mktemp("tickets")
    lines = "\n".join(f"line {line}" for line in range(200))
    data = table(folder / "tickets.csv", ["id", "text"], ([i, f"ticket {i}\n{lines}"] for i in range(30)))
    with served(
        data, folder / "project", answers=Answers("several", ("billing", "bug", "praise"))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def pictures(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Pictures in three colors."""
    with served(photos, tmp_path_factory.mktemp("pictures"), answers=COLORS, encoder="pixels") as running:
        yield running


def test_numbers_are_read_as_english_and_never_guessed(prices: Running, visit: Visit) -> None:
    page = visit(prices, name="Ada")
    page.wait_for_selector("input[aria-label=price]")
    assert page.get_attribute("input[name=number]", "placeholder") == "price"
    assert "area" in page.inner_text(".stage")
    assert "price" not in page.inner_text(".stage")
    for typed in ("1,250", "1 250 000.5", "-1,000", "1e3", ".5"):
        answered_by(page, *typed, "Enter")
    expect(page, lambda: [value for _, value in on_disk(prices, "Ada")], [1250, 1250000.5, -1000, 1000, 0.5])
    for typed, readings in (
        ("1,25", "1.25 or 125"),
        ("0,250", "0.25 or 250"),
        ("12,3456", "12.3456 or 123456"),
    ):
        page.fill("input[name=number]", typed)
        page.keyboard.press("Enter")
        page.wait_for_selector(f".toast.shown:has-text('{readings}')")
    for typed in ("1,2,3", "0x10", "1 25", "Infinity", "1.250,5"):
        page.fill("input[name=number]", typed)
        page.keyboard.press("Enter")
        page.wait_for_selector(".toast.shown:has-text('not a number')")
        page.evaluate("document.getElementById('toast').textContent = ''")
    page.wait_for_selector("input[aria-invalid]")
    answered_by(page, "Escape", " ")  # out of the field, and on
    answered_by(page, "Escape", "Backspace")
    expect(page, lambda: [act for act, _ in on_disk(prices, "Ada")][5:], ["skip", "withdrawal"])


def test_undo_and_edit_bring_back_the_number_that_is_stored(prices: Running, visit: Visit) -> None:
    exact = "1234.567890123"
    page = visit(prices, name="Bo")
    page.wait_for_selector("input[aria-label=price]")
    answered_by(page, *exact, "Enter")
    page.keyboard.type("77")  # begun on the next one
    answered_by(page, "Escape", "Backspace")
    expect(page, lambda: page.input_value("input[name=number]"), exact)
    page.focus("input[name=number]")
    answered_by(page, "Enter")
    expect(page, lambda: page.input_value("input[name=number]"), "77")
    expect(page, lambda: [value for _, value in on_disk(prices, "Bo")], [float(exact), None, float(exact)])
    page.goto(f"{prices.origin}/#review")
    page.click("text=All answers")
    page.fill("input[type=search]", "Bo")
    page.wait_for_selector(".item:has-text('by Ada')", state="detached")
    field = page.wait_for_selector(".item:has-text('by Bo') input")
    assert field.input_value() == exact


def test_enter_alone_stores_nothing_and_undo_brings_back_what_was_ticked(
    tickets: Running, visit: Visit
) -> None:
    page = visit(tickets, name="Ada")
    page.wait_for_selector(".stage:has-text('ticket')")
    before = page.get_attribute(".stage", "data-key")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast.shown:has-text('none of them')")
    assert on_disk(tickets, "Ada") == []
    assert page.get_attribute(".stage", "data-key") == before
    answered_by(page, "1", "2", "2", "p", "Enter")  # by digits and letters; not the second after all
    answered_by(page, "Backspace")
    ticked = "[...document.querySelectorAll('[aria-pressed=true]')].map((each) => each.dataset.class)"
    expect(page, lambda: page.evaluate(ticked), ["billing", "praise"])
    answered_by(page, "3", "Enter")
    answered_by(page, "Enter", "Enter")
    wanted = [[0, 2], [0], []]
    expect(page, lambda: [value for act, value in on_disk(tickets, "Ada") if act == "answer"], wanted)


def test_each_tab_has_its_own_person(tickets: Running, visit: Visit) -> None:
    first = visit(tickets, name="Cy")
    first.wait_for_selector(".stage:has-text('ticket')")
    second = first.context.new_page()
    second.goto(f"{tickets.origin}/?token={TOKEN}")
    second.wait_for_selector("dialog[open]")
    assert second.input_value("input[name=name]") == "Cy"  # offered, and asked
    second.fill("input[name=name]", "Di")
    second.keyboard.press("Enter")
    second.wait_for_selector(".stage:has-text('ticket')")
    first.goto(tickets.origin)
    first.wait_for_selector(".stage:has-text('ticket')")
    expect(first, lambda: (first.inner_text("#person"), second.inner_text("#person")), ("Cy", "Di"))


def test_a_picture_is_answered_when_it_can_be_seen(pictures: Running, visit: Visit) -> None:
    page = visit(pictures, name=None)
    page.wait_for_selector("dialog[open]")
    held: list[Any] = []
    page.route("**/api/content/*", lambda route: held.append(route))  # they never come
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-class=red]")
    page.keyboard.press("1")
    page.wait_for_selector(".toast.shown:has-text('Wait for the picture')")
    assert on_disk(pictures, "Ada") == []
    expect(page, lambda: bool(held), True)
    held.pop(0).continue_()
    page.wait_for_selector(SHOWN)
    page.keyboard.press("1")
    expect(page, lambda: on_disk(pictures, "Ada"), [("answer", 0)])


def test_a_picture_that_cannot_be_shown_can_only_be_skipped(pictures: Running, visit: Visit) -> None:
    page = visit(pictures, name=None)
    page.wait_for_selector("dialog[open]")
    page.route("**/api/content/*", lambda route: route.fulfill(status=500, body="no"))
    page.keyboard.type("Bo")
    page.keyboard.press("Enter")
    page.wait_for_selector(".stage .broken")
    page.keyboard.press("1")
    page.wait_for_selector(".toast.shown:has-text('cannot be shown')")
    page.keyboard.press(" ")
    expect(page, lambda: on_disk(pictures, "Bo"), [("skip", None)])


def test_tiles_whose_pictures_are_not_shown_are_not_answered(pictures: Running, visit: Visit) -> None:
    labeled(pictures.session, 12, "Di", lambda name: COLORS[int(name[:2]) % 3 if name[:2].isdecimal() else 1])
    pictures.session.train()
    page = visit(pictures, name="Cy")
    page.wait_for_selector(SHOWN)
    page.route("**/api/content/*", lambda route: route.fulfill(status=500, body="no"))
    page.goto(f"{pictures.origin}/#grid")
    page.wait_for_selector(".tile .broken")
    page.click(".tile .face")
    page.keyboard.press("1")
    page.wait_for_selector(".toast.shown:has-text('not answered')")
    page.click(".bulk .done")
    assert on_disk(pictures, "Cy") == []


def test_the_end_of_a_project_says_what_to_do_next(tmp_path: Path, visit: Visit) -> None:
    data = table(tmp_path / "tickets.csv", ["id", "text"], ([i, f"ticket {i}"] for i in range(3)))
    with served(data, tmp_path / "project", answers=["good", "bad"]) as server:
        page = visit(server)
        for _ in range(2):
            answered_by(page, "1")
        page.keyboard.press("1")
        page.wait_for_selector(".stage:has-text('Everything has an answer')")
        assert "jostle label export labels.csv" in page.inner_text(".stage")
        assert page.get_attribute(".stage a", "href") == "#review"


def test_a_class_is_found_by_letters_and_then_by_a_digit(tmp_path: Path, visit: Visit) -> None:
    data = table(tmp_path / "tickets.csv", ["id", "text"], ([i, f"ticket {i}"] for i in range(30)))
    with served(data, tmp_path / "project", answers=MANY.split(",")) as server:
        server.session.book.choose_keys({"hen": "h"})
        page = visit(server)
        page.wait_for_selector(".stage:has-text('ticket')")
        page.wait_for_selector(".typeahead:focus")
        page.keyboard.type("be")
        page.wait_for_selector("[data-class=bear].first")
        shown = [each.get_attribute("data-class") for each in page.query_selector_all(".class:not([hidden])")]
        assert shown == ["bear", "polar bear"]
        assert problems(page) == []
        answered_by(page, "ArrowDown", "Enter")
        answered_by(page, "e", "m", "e", "Enter")  # without its accent
        answered_by(page, "1")  # the class used first
        answered_by(page, "2")
        page.keyboard.press("Backspace")  # the field is empty: it undoes
        page.wait_for_selector("[data-class='Émeu'].given")
        assert [value for act, value in on_disk(server) if act == "answer"] == [13, 14, 13, 14]
        answered_by(page, "h")  # a key of its own, though letters search
        assert on_disk(server)[-1] == ("answer", 7)
        page.reload()
        page.wait_for_selector(".class:has-text('polar bear') kbd:text-is('1')")
