"""One example at a time, by keys, in a real browser: nothing is lost whatever happens."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Person, Server

CLASSES = "red,green,<b>blue</b>"
Visit = Callable[..., Any]


def acts(project: Path) -> list[tuple[str, str, str]]:
    """What is on disk: person, act, value."""
    with sqlite3.connect(project / "labels.db") as reader:
        found = reader.execute("select person, act, value from acts order by seq").fetchall()
    reader.close()
    return found


def shown(page: Any) -> str:
    """The key of the example on the stage, once there is one."""
    page.wait_for_selector(".stage[data-key]:not([data-key=''])")
    return str(page.get_attribute(".stage", "data-key"))


def press(page: Any, key: str) -> str:
    """Press a key and wait for another example."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_selector(f".stage:not([data-key='{before}'])")
    return before


@pytest.fixture
def server(photos: Path, tmp_path: Path) -> Any:
    with Server([str(photos), "--classes", CLASSES], tmp_path / "project") as running:
        yield running


def test_the_whole_way_by_keys(server: Server, visit: Visit) -> None:
    page = visit(server)
    first = press(page, "1")
    assert page.url == f"{server.origin}/?name=Ada#label", "the token stays in the address"
    second = press(page, "G")
    assert acts(server.project) == [("Ada", "answer", "0"), ("Ada", "answer", "1")]

    page.keyboard.press("Backspace")  # take the second back
    page.wait_for_selector(f".stage[data-key='{second}']")
    assert acts(server.project)[-1][:2] == ("Ada", "withdrawal")
    assert press(page, "3") == second

    skipped = press(page, " ")
    assert acts(server.project)[-1][:2] == ("Ada", "skip")
    page.click("[data-class=green]")
    page.wait_for_function("document.querySelector('.meter').textContent.includes('3 answers')")

    held = {each["key"] for each in Person("Ada", server.port).questions(5)}
    page.reload()
    assert shown(page) in held, "after a reload, questions that were open are open"
    assert not held & {first, second, skipped}


def test_a_name_is_asked_once_and_keys_write_while_it_is(server: Server, visit: Visit) -> None:
    page = visit(server, name=None)
    page.wait_for_selector("dialog[open]")
    page.keyboard.type("Bo 1 g")  # letters and digits that name classes
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    shown(page)
    assert page.inner_text("#person") == "Bo 1"
    assert acts(server.project) == []
    page.goto(server.origin)
    shown(page)
    assert page.inner_text("#person") == "Bo 1", "it is asked once"


def test_keys_of_the_browser_and_held_keys_do_nothing(server: Server, visit: Visit) -> None:
    page = visit(server)
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
    assert acts(server.project) == []


def test_two_people_get_different_questions(server: Server, visit: Visit) -> None:
    ada, bo = visit(server, name="Ada"), visit(server, name="Bo")
    seen = [{press(page, "1") for _ in range(5)} for page in (ada, bo)]
    assert not seen[0] & seen[1]
    assert [person for person, _, _ in acts(server.project)] == ["Ada"] * 5 + ["Bo"] * 5


def test_the_server_is_killed_and_comes_back(server: Server, visit: Visit) -> None:
    page = visit(server)
    press(page, "1")
    shown(page)
    server.kill()
    given = [press(page, "2") for _ in range(3)]  # prefetched, so the page goes on
    page.wait_for_selector("#line[data-state=away]")
    assert "3 answers kept here" in page.inner_text("#line")
    assert len(acts(server.project)) == 1

    server.start()
    page.wait_for_selector("#line[data-state=there]", state="attached")
    page.wait_for_function("Object.keys(localStorage).every((name) => !name.includes(':kept:'))")
    assert acts(server.project) == [("Ada", "answer", "0"), *[("Ada", "answer", "1")] * 3]
    assert press(page, "3") not in given
    assert len(acts(server.project)) == 5


def test_answers_that_were_kept_are_sent_after_a_reload(server: Server, visit: Visit) -> None:
    page = visit(server)
    shown(page)
    server.kill()
    key = press(page, "2")
    page.context.pages[0].goto("about:blank")
    server.start()
    page.goto(server.origin)
    assert shown(page) != key
    assert acts(server.project) == [("Ada", "answer", "1")]


def test_names_of_files_and_classes_are_text(server: Server, visit: Visit) -> None:
    page = visit(server)
    page.on("dialog", lambda box: pytest.fail(f"a script ran: {box.message}"))
    shown(page)
    assert page.inner_text("[data-class='<b>blue</b>']").strip().endswith("<b>blue</b>")
    names = {page.get_attribute(".stage img", "alt") for _ in range(29) if press(page, "3")}
    assert "<img src=x onerror=alert(1)>.png" in names
    assert page.query_selector("img[src=x]") is None
