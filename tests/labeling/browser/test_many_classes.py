"""Many classes: found by some letters, those used last by a digit that stays theirs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser_pages import answered_by, on_disk, problems, table
from running_server import served

CLASSES = "ant,bear,cat,dog,eel,fox,goat,hen,ibis,jay,kiwi,lynx,mole,polar bear,Émeu"


def test_a_class_is_found_by_letters_and_then_by_a_digit(tmp_path: Path, visit: Callable[..., Any]) -> None:
    data = table(tmp_path / "tickets.csv", ["id", "text"], ([i, f"ticket {i}"] for i in range(30)))
    with served(data, tmp_path / "project", answers=CLASSES.split(",")) as server:
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
