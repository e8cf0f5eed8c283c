"""Several classes at once and numbers, answered in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser_pages import answered_by, expect, on_disk, table
from tools.serving import Server

Visit = Callable[..., Any]


def test_several_classes_are_chosen_and_then_done(tmp_path: Path, visit: Visit) -> None:
    data = table(
        tmp_path / "tickets.csv", ["id", "message"], ([i, f"the app and the bill, {i}"] for i in range(30))
    )
    words = [data, "--text", "message", "--classes", "billing,bug,praise", "--several", "--encoder", "words"]
    with Server(words, tmp_path / "project") as server:
        page = visit(server)
        page.wait_for_selector(".stage:has-text('the app and the bill')")
        page.keyboard.press("1")
        page.keyboard.press("p")
        chosen = "[...document.querySelectorAll('[aria-pressed=true]')].map((each) => each.dataset.class)"
        expect(page, lambda: page.evaluate(chosen), ["billing", "praise"])
        page.keyboard.press("p")  # not that one after all
        answered_by(page, "2", "Enter")
        answered_by(page, "Enter", "Enter")  # none of them
        expect(page, lambda: on_disk(server), [("answer", [0, 1]), ("answer", [])])
        expect(page, lambda: page.evaluate(chosen), [])  # the next begins with nothing chosen


def test_numbers_are_typed(tmp_path: Path, visit: Visit) -> None:
    data = table(tmp_path / "houses.csv", ["id", "area", "price"], ([i, 40 + i, ""] for i in range(30)))
    with Server([data, "--target", "price"], tmp_path / "project") as server:
        page = visit(server)
        page.wait_for_selector("input[aria-label=price]")
        assert page.get_attribute("input[name=number]", "placeholder") == "price"
        assert "area" in page.inner_text(".stage")
        assert "price" not in page.inner_text(".stage")
        answered_by(page, *"1 200.5", "Enter")
        page.keyboard.type("cheap")
        page.keyboard.press("Enter")
        page.wait_for_selector("input[aria-invalid]")
        page.wait_for_selector(".toast.shown:has-text('not a number')")
        expect(page, lambda: on_disk(server), [("answer", 1200.5)])
        answered_by(page, "Escape", " ")  # out of the field, and on
        answered_by(page, "Escape", "Backspace")
        expect(page, lambda: [act for act, _ in on_disk(server)], ["answer", "skip", "withdrawal"])
