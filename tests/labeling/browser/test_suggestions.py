"""Suggestions of another model in a browser: hidden, shown by a key, and named on Progress."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser_pages import problems
from labeling_data import COLORS
from running_server import served

from jostle.labeling.training.suggesters import begin


def test_another_models_suggestion_is_hidden_until_a_key_shows_it(
    tmp_path: Path, photos: Path, visit: Callable[..., Any]
) -> None:
    with (tmp_path / "theirs.csv").open("w", newline="") as file:
        rows = [[path.name, "green", 0.75] for path in photos.iterdir()]
        csv.writer(file).writerows([["name", "prediction", "chance"], *rows])
    settings = {"answers": COLORS, "audit": 0.0, "suggest": str(tmp_path / "theirs.csv")}
    with served(photos, tmp_path / "project", **settings) as server:
        begin(server.session)
        page = visit(server, view="progress")
        page.wait_for_selector("h2:has-text('Suggestions of theirs.csv')")
        page.wait_for_selector("p:has-text('60 suggestions.')")
        assert problems(page) == []
        page.click("nav a[href='#label']")
        page.wait_for_selector(".stage[data-state=shown]")
        assert page.is_hidden(".hint")
        page.keyboard.press(".")
        page.wait_for_selector(".hint:has-text('theirs.csv says green (75 %)')")
        assert problems(page) == []
        page.keyboard.press(".")
        page.wait_for_selector(".hint", state="hidden")
