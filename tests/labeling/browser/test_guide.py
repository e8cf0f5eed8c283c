"""The guide in a browser: at the first start, beside the question, and with a class."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import answered_by, on_disk, problems
from PIL import Image
from running_server import Running, served

TEXT = "# Rules\n\nLook <b>closely</b>.\n\n## cat\n\nIt purrs.\n\n![a cat](cat.png)\n\n## dog\n\nIt barks.\n"


@pytest.fixture
def server(tmp_path: Path, photos: Path) -> Iterator[Running]:
    """A project with a guide."""
    Image.new("RGB", (300, 200), (90, 120, 60)).save(tmp_path / "cat.png")
    (tmp_path / "guide.md").write_text(TEXT)
    guide = str(tmp_path / "guide.md")
    with served(photos, tmp_path / "project", answers=["cat", "dog"], guide=guide) as running:
        yield running


def test_the_guide_greets_each_person_once_and_stands_beside_the_question(
    server: Running, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(server, name="Ada")
    page.wait_for_selector("dialog[open]:has-text('It purrs')")
    assert "<b>closely</b>" in page.inner_text("dialog")
    assert problems(page) == []
    page.keyboard.press("1")
    page.click("dialog .done")
    page.wait_for_selector("aside.guide:has-text('It barks') img")
    assert problems(page) == []
    answered_by(page, "1")
    assert on_disk(server) == [("answer", 0)], "a key in the dialog answered nothing"
    page.hover("[data-class=cat]")
    page.wait_for_selector(".card:has-text('It purrs') img")
    assert page.get_attribute("[data-class=cat]", "aria-describedby") == "class-card"
    page.focus("[data-class=cat]")
    page.keyboard.press("Tab")
    page.wait_for_selector(".card:has-text('It barks')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".card", state="hidden")
    page.keyboard.press("/")
    page.wait_for_selector("aside.guide", state="hidden")
    (tmp_path / "guide.md").write_text(TEXT.replace("purrs", "meows"))
    page.reload()
    page.wait_for_selector(".toast.shown:has-text('The guide has changed')")
    assert page.is_hidden("aside.guide"), "closed stays closed"
    assert page.is_hidden("dialog"), "seen is seen"
    page.keyboard.press("/")
    page.wait_for_selector("aside.guide:has-text('It meows')")


def test_on_a_phone_the_guide_opens_over_the_question(server: Running, visit: Callable[..., Any]) -> None:
    page = visit(server, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.click("dialog .done")
    assert page.is_hidden("aside.guide")
    page.click("[data-action=guide]")
    page.wait_for_selector("dialog[open]:has-text('It barks')")
