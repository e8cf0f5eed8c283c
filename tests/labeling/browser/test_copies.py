"""Near-copies on the page: a group is one question, and what is split off comes next."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import SHOWN, answered, answered_by, expect, problems
from labeling_data import scene
from running_server import Running, served

Visit = Callable[..., Any]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """Two scenes, one of them with two near-copies, which are known when the page opens."""
    folder = tmp_path / "scenes"
    folder.mkdir()
    scene(1).save(folder / "1.png")
    for name, quality in (("0", 95), ("0-again", 60), ("0-poor", 30)):
        scene(0).save(folder / f"{name}.jpg", quality=quality)
    with served(folder, tmp_path / "project", answers=["cat", "dog"], near_copies=True) as running:
        yield running


def test_a_group_is_one_question_and_what_is_split_off_comes_next(server: Running, visit: Visit) -> None:
    page = visit(server)
    page.wait_for_selector(SHOWN)
    if page.get_attribute(".stage", "data-name") == "1.png":
        answered_by(page, "1")
    page.wait_for_selector(".copies b:text-is('3 alike')")
    page.wait_for_selector(".strip button:nth-child(2) img")
    assert problems(page) == []
    page.click(".strip button:first-child")
    page.wait_for_selector(".copies b:text-is('2 alike')")
    page.keyboard.press("s")
    page.wait_for_selector(".copies", state="hidden")
    before = answered(server)
    for number in range(3):
        answered_by(page, "2") if number < 2 else page.keyboard.press("2")
        expect(page, lambda done=before + number + 1: answered(server) == done, True)


def test_find_shows_groups_as_one_and_splits_them(server: Running, visit: Visit) -> None:
    page = visit(server, view="find")
    page.click("text=Near-copies")
    page.click(".tile .alike:text-is('3 alike')")
    page.wait_for_selector("dialog .strip button:nth-child(2) img")
    assert problems(page) == []
    page.click("dialog .strip button:first-child")
    page.wait_for_selector("dialog .copies b:text-is('2 alike')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tile .alike:text-is('2 alike')")
