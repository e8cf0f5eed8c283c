"""The page of all projects, and the page of a person with a token of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import problems
from running_server import NoTrainer, Running

from jostle.labeling import Session
from jostle.labeling.project import register_project
from jostle.labeling.server import serving
from jostle.labeling.server.security import add_person

SHOWN = "() => document.querySelector('.stage')?.dataset.key"
PICTURE = "() => document.querySelector('.picture img')?.naturalWidth > 0"


@pytest.fixture
def two(tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server of two projects."""
    monkeypatch.setenv("JOSTLE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(serving, "Trainer", NoTrainer)
    for name in ("cats", "dogs"):
        session = Session.open(
            photos, project=tmp_path / f"{name}.labels", answers=["a", "b"], encoder="pixels"
        )
        register_project(session.project)
        session.close()
    with Running() as server:
        yield server


def test_the_page_of_projects_opens_two_of_them(visit: Callable[..., Any], two: Running) -> None:
    page = visit(two, None)
    assert page.locator(".project-card h2").all_inner_texts() == ["dogs", "cats"]
    for name in ("cats", "dogs"):
        page.get_by_label(f"Open {name}").click()
        page.get_by_role("textbox", name="Your name").or_(page.locator("#person:not(:empty)")).wait_for()
        if page.locator("dialog[open]").count():
            page.get_by_role("textbox", name="Your name").fill("Ada")
            page.keyboard.press("Enter")
        page.wait_for_function(SHOWN)
        page.wait_for_function(PICTURE)
        before = page.evaluate(SHOWN)
        page.keyboard.press("1")
        page.wait_for_function(f"() => document.querySelector('.stage').dataset.key !== '{before}'")
        page.locator(".home").click()
        page.locator(".project-card").first.wait_for()
    assert page.get_by_text("open", exact=True).count() == 2
    assert not problems(page)
    assert [len(each.session.answers().entries) for each in two.projects.projects.values()] == [1, 1]


def test_a_labelers_page_has_no_review_and_nothing_to_manage(visit: Callable[..., Any], two: Running) -> None:
    two.projects.open("cats")
    token = add_person(two.projects.projects["cats"].session.store, "anna", "label")
    page = visit(two, None, origin=f"http://127.0.0.1:{two.port}/p/cats", token=token)
    page.wait_for_function(SHOWN)
    assert page.locator("nav a").all_inner_texts() == ["Label", "Grid", "Progress"]
    assert page.locator("#person").inner_text() == "anna"
    assert page.locator("#person").is_disabled()
    page.goto(f"http://127.0.0.1:{two.port}/p/cats/#review")
    page.wait_for_function("() => document.body.dataset.view === 'label'")
    page.locator("nav a", has_text="Progress").click()
    page.locator(".verdict h1").wait_for()
    assert page.get_by_role("button", name="Train now").count() == 0
    assert page.get_by_role("button", name="Add a class").count() == 0
