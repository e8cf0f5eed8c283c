"""One example at a time, by keys, in a real browser: nothing is lost whatever happens."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import answered_by, expect, on_disk, shown
from running_server import Running, served
from tools.serving import Person, Server

from jostle.labeling.sources.contents import digest

CLASSES = "red,green,<b>blue</b>"
HTML = "<img src=x onerror=alert(1)>.png"
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def server(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for all tests that let it live; each has people of its own."""
    with served(photos, tmp_path_factory.mktemp("label"), answers=CLASSES.split(",")) as running:
        yield running


def loaded_ahead(page: Any, server: Any, person: str) -> None:
    """Wait until every picture that is open for a person is in the browser."""
    with sqlite3.connect(server.project / "labels.db") as reader:
        found = [key for (key,) in reader.execute("select key from leases where person = ?", [person])]
    reader.close()
    shown(page)
    page.wait_for_function(
        """(keys) => { const ends = performance.getEntriesByType("resource").filter((each) => each.responseEnd);
        return keys.every((key) => ends.some(({ name }) => name.includes(key))); }""",
        arg=found,
    )


def test_the_whole_way_by_keys(server: Running, visit: Visit) -> None:
    page = visit(server, name="Ada")
    first = answered_by(page, "1")
    assert page.url == f"{server.origin}/?name=Ada#label", "the token stays in the address"
    second = answered_by(page, "G")
    expect(page, lambda: on_disk(server, "Ada"), [("answer", 0), ("answer", 1)])

    page.keyboard.press("Backspace")  # take the second back
    page.wait_for_selector(f".stage[data-key='{second}']")
    expect(page, lambda: on_disk(server, "Ada")[-1], ("withdrawal", None))
    assert answered_by(page, "3") == second

    skipped = answered_by(page, " ")
    expect(page, lambda: on_disk(server, "Ada")[-1], ("skip", None))
    clicked = shown(page)
    page.click("[data-class=green]")
    page.wait_for_selector(f".stage:not([data-key='{clicked}'])")
    expect(page, lambda: on_disk(server, "Ada")[-1], ("answer", 1))
    page.wait_for_selector(".meter:has-text('answers of 60')")

    open_ones = {each["key"] for each in Person("Ada", server.port).questions(5)}
    assert not open_ones & {first, second, skipped, clicked}
    page.reload()
    assert shown(page) not in {first, second, skipped, clicked}


def test_a_name_is_asked_once_and_keys_write_while_it_is(server: Running, visit: Visit) -> None:
    page = visit(server, name=None)
    page.wait_for_selector("dialog[open]")
    page.keyboard.type("Bo 1 g")  # letters and digits that name classes
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    shown(page)
    assert page.inner_text("#person") == "Bo 1"
    assert on_disk(server, "Bo 1") == []
    page.goto(server.origin)
    shown(page)
    assert page.inner_text("#person") == "Bo 1", "it is asked once"


def test_keys_of_the_browser_and_held_keys_do_nothing(server: Running, visit: Visit) -> None:
    page = visit(server, name="Cy")
    before = shown(page)
    page.keyboard.press("Control+1")
    page.keyboard.press("x")
    page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: '1', repeat: true}))")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] .keys")
    page.keyboard.press("1")  # in a dialog
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    assert shown(page) == before
    assert on_disk(server, "Cy") == []


def held(server: Running, person: str) -> int:
    """How many questions are kept for somebody."""
    with sqlite3.connect(server.project / "labels.db") as reader:
        (found,) = reader.execute("select count(*) from leases where person = ?", [person]).fetchone()
    reader.close()
    return int(found)


def test_a_page_that_is_closed_gives_its_questions_back(server: Running, visit: Visit) -> None:
    page = visit(server, name="Gus")
    shown(page)
    assert held(server, "Gus") == 5
    page.goto("about:blank")
    expect(page, lambda: held(server, "Gus"), 0)


def test_names_of_files_and_classes_are_text(photos: Path, server: Running, visit: Visit) -> None:
    assert Person("Flo", server.port).answer(digest((photos / HTML).read_bytes()), "<b>blue</b>")["kept"]
    page = visit(server, name="Flo", view="review")
    page.on("dialog", lambda box: pytest.fail(f"a script ran: {box.message}"))
    page.click("text=All answers")
    page.fill("input[type=search]", "onerror")
    item = page.wait_for_selector(f".item:has-text('{HTML}')")
    assert "<b>blue</b> by Flo" in item.inner_text()
    assert page.query_selector("img[src=x]") is None
    page.goto(f"{server.origin}/#label")
    assert page.inner_text("[data-class='<b>blue</b>']").strip().endswith("<b>blue</b>")


def test_the_server_is_killed_and_comes_back(photos: Path, tmp_path: Path, visit: Visit) -> None:
    with Server([str(photos), "--classes", CLASSES], tmp_path) as server:
        page = visit(server)
        answered_by(page, "1")
        expect(page, lambda: len(on_disk(server, "Ada")), 1)
        loaded_ahead(page, server, "Ada")
        server.kill()
        given = [answered_by(page, "2") for _ in range(3)]  # loaded ahead, so the page goes on
        page.wait_for_selector("#line[data-state=away]")
        page.wait_for_selector("#line:has-text('3 answers kept here')")
        assert len(on_disk(server, "Ada")) == 1

        server.start()
        page.wait_for_selector("#line[data-state=there]", state="attached")
        expect(page, lambda: on_disk(server, "Ada"), [("answer", 0), *[("answer", 1)] * 3])
        assert answered_by(page, "3") not in given
        expect(page, lambda: len(on_disk(server, "Ada")), 5)
        loaded_ahead(page, server, "Ada")

        server.kill()  # and answers that are kept are sent after the page was closed, too
        key = answered_by(page, "2")
        page.goto("about:blank")
        server.start()
        page.goto(server.origin)
        assert shown(page) not in {key, *given}
        expect(page, lambda: len(on_disk(server, "Ada")), 6)


def test_other_machines_answer_too(photos: Path, tmp_path: Path, visit: Visit) -> None:
    """A browser trusts plain http from its own machine only, and takes functions away from pages of others."""
    with served(photos, tmp_path, "0.0.0.0", answers=CLASSES.split(",")) as server:
        page = visit(server)
        answered_by(page, "1")
        assert not page.evaluate("isSecureContext")
        expect(page, lambda: on_disk(server, "Ada"), [("answer", 0)])


def test_a_full_storage_loses_nothing_that_another_tab_does_not_know(server: Running, visit: Visit) -> None:
    page = visit(server, name="Hal")
    shown(page)
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    page.route("**/api/answers", lambda route: route.abort())
    answered_by(page, "1")
    page.evaluate("dispatchEvent(new StorageEvent('storage'))")  # another tab keeps something
    page.unroute("**/api/answers")
    page.wait_for_selector("#line[data-state=there]", state="attached")
    answered_by(page, "2")
    expect(page, lambda: on_disk(server, "Hal"), [("answer", 0), ("answer", 1)])
