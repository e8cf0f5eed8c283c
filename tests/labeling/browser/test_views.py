"""The grid, the review, the progress and suggestions, on a project whose model has learned something."""

import csv
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import answered, expect, problems, table
from labeling_data import COLORS
from running_server import Running, served
from tools.serving import Person

from jostle.labeling.training.suggesters import begin

Visit = Callable[..., Any]
TIMEOUT = 300  # seconds that figures may take on a busy machine


def figures(port: int) -> Any:
    return Person("probe", port).call("GET", "/api/progress")[1]


def until(port: int, wanted: Callable[[Any], bool]) -> Any:
    """The figures once they are as wanted: they are made anew now and then only."""
    end = time.monotonic() + TIMEOUT
    while not wanted(found := figures(port)):
        assert time.monotonic() < end, found
        time.sleep(0.2)
    return found


def learn(server: Running, person: str, n: int, wrong: int = 0) -> None:
    """Answer n questions, the first few of them wrongly, and train."""
    for count in range(n):
        [question] = server.session.ask(1, person)
        size = float((server.session.content(question.key).fields or {})["size"])  # type: ignore[arg-type]
        server.session.tell(
            question.key, "large" if (size > 0.5) is (count >= wrong) else "small", person, 1.0
        )
    server.session.train()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two people have labeled rows, with some slips; a model knows what is large."""
    folder, draw = tmp_path_factory.mktemp("views"), random.Random(0)
    sizes = (round(draw.choice((0.2, 0.8)) + draw.uniform(-0.1, 0.1), 4) for _ in range(300))
    rows = ([f"parcel {number}", size, round(draw.random(), 4)] for number, size in enumerate(sizes))
    data = table(folder / "parcels.csv", ["id", "size", "weight"], rows)
    settings = {"answers": ["small", "large"], "goal": "60%", "batch": 15, "audit": 0.4, "overlap": 0.2}
    with served(data, folder / "project", **settings) as running:
        running.session.train()
        learn(running, "Ada", 30, wrong=3)
        learn(running, "Bo", 30)
        yield running


def test_progress_shows_the_audit_and_the_advice(server: Running, visit: Visit) -> None:
    page = visit(server, view="progress")
    page.wait_for_selector("svg.curve .point")
    facts = page.inner_text(".facts")
    assert "of what is left here" in facts
    assert "on new data like this" in facts
    assert "at least" in facts
    assert " %" in facts
    assert page.get_attribute("svg.curve", "aria-label").startswith("accuracy over answers")
    assert "large" in page.inner_text(".bars")
    assert "Ada" in page.inner_text(".halves")
    assert page.inner_text(".verdict h1")
    assert "[object" not in page.inner_text("main")


def test_the_answer_is_right_once_and_for_all(server: Running, visit: Visit) -> None:
    page = visit(server, view="review")
    page.wait_for_selector(".item[aria-current] .option")
    key = page.get_attribute(".item[aria-current]", "data-key")
    page.keyboard.press("1")
    page.wait_for_selector(f".item[data-key='{key}'].answered, .empty")
    page.reload()
    page.wait_for_selector(".item, .empty")
    assert not page.query_selector(f".item[data-key='{key}']")

    page.click("text=All answers")
    page.wait_for_selector(".item")
    assert "who corrected it" in page.inner_text(".item")
    page.fill("input[type=search]", "Bo")
    page.wait_for_selector(".item:has-text('by Ada')", state="detached")
    assert "by Bo" in page.inner_text(".item")
    page.fill("input[type=search]", "no such words")
    page.wait_for_selector("text=No answer has these words.")


def test_disagreements_are_settled_side_by_side(server: Running, visit: Visit) -> None:
    ada, bo = Person("Ada", server.port), Person("Bo", server.port)
    key = ada.questions(1)[0]["key"]
    ada.answer(key, "small")
    bo.answer(key, "large")
    page = visit(server, view="review")
    page.click("text=Disagreed")
    item = page.wait_for_selector(f".item[data-key='{key}']")
    assert [option.inner_text().split() for option in item.query_selector_all(".option")] == [
        ["1", "small", "Ada"],
        ["2", "large", "Bo"],
    ]
    page.wait_for_selector(f".item[data-key='{key}'][aria-current]")  # the latest is the first
    page.keyboard.press("2")
    page.wait_for_selector(f".item[data-key='{key}'].answered, .empty")
    page.click("text=Doubted")
    page.click("text=Disagreed")
    page.wait_for_selector(f".item[data-key='{key}']", state="detached")


def test_classes_are_renamed_merged_and_added(server: Running, visit: Visit) -> None:
    page = visit(server, view="progress")
    page.click("text=Add a class")
    page.fill("dialog input", "<i>huge</i>")
    page.keyboard.press("Enter")
    page.wait_for_selector("th:text-is('<i>huge</i>')")
    page.click("[aria-label='Change <i>huge</i>']")
    page.fill("dialog input", "huge")
    page.keyboard.press("Enter")
    page.wait_for_selector("th:text-is('huge')")
    page.click("[aria-label='Change huge']")
    page.click("dialog .menu summary")
    page.click("dialog .menu button:text-is('large')")
    page.click("dialog button[value=save]")
    page.wait_for_selector("th:text-is('huge')", state="detached")
    spec = Person("probe", server.port).call("GET", "/api/project")[1]["answers"]
    assert [each["name"] for each in spec["classes"]] == ["small", "large"]


def test_enough_is_said_on_the_label_view_too(server: Running, visit: Visit) -> None:
    """The goal is low and the model good: some rounds more, and the advice is to stop."""
    for _ in range(12):
        if figures(server.port)["advice"]["stop"]:
            break
        before = figures(server.port)["answered"]
        learn(server, "Bo", 15)
        until(server.port, lambda found, before=before: found["answered"] >= before + 15)
    page = visit(server)
    banner = page.wait_for_selector(".advice:not([hidden])")
    assert "Stop here" in banner.inner_text()
    banner.click()
    page.wait_for_selector(".verdict.stop")


def test_tiles_of_the_last_class_take_no_click_while_another_is_fetched(
    server: Running, visit: Visit
) -> None:
    page = visit(server, view="grid")
    page.wait_for_selector(".tiles[aria-busy=false] .tile")
    held: list[Any] = []
    page.route("**/api/grid?class=large*", lambda route: held.append(route))
    page.click(".chips button:has-text('large')")
    page.wait_for_selector(".chips button[aria-pressed=true]:has-text('large')")
    assert page.get_attribute(".tiles", "aria-busy") == "true"
    box = page.query_selector(".tile .face").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert not page.query_selector_all(".face[aria-pressed=true]")
    expect(page, lambda: bool(held), True)
    held[0].continue_()
    page.wait_for_selector(".tiles[aria-busy=false] .tile .says:text-is('large')")


def test_the_grid_answers_a_selection_and_the_rest_and_takes_both_back(server: Running, visit: Visit) -> None:
    page = visit(server, view="grid")
    page.click(".chips button:has-text('large')")
    page.wait_for_selector(".tiles[aria-busy=false] .tile .says:text-is('large')")
    before = answered(server)
    keys = [tile.get_attribute("data-key") for tile in page.query_selector_all(".tile")]
    faces = page.query_selector_all(".tile .face")
    faces[1].click()
    faces[4].click(modifiers=["Shift"])
    assert len(page.query_selector_all(".face[aria-pressed=true]")) == 4
    faces[3].click()  # a click toggles
    page.keyboard.press("1")  # the first class is "small"
    page.wait_for_selector(f"[data-key='{keys[1]}'].answered.changed")
    expect(page, lambda: answered(server), before + 3)

    page.keyboard.press("Enter")
    expect(page, lambda: answered(server), before + len(keys))
    page.wait_for_selector(f"[data-key='{keys[0]}']", state="detached")  # others are shown
    page.keyboard.press("Backspace")
    expect(page, lambda: answered(server), before + 3)
    page.wait_for_selector(".tiles[aria-busy=false]")
    page.keyboard.press("Backspace")
    expect(page, lambda: answered(server), before)


def test_the_grid_shows_the_least_certain_first_where_wanted(server: Running, visit: Visit) -> None:
    page = visit(server, view="grid")
    page.wait_for_selector(".tiles[aria-busy=false] .tile .sure")
    page.click("text=Least certain first")
    page.wait_for_selector(".chips button[aria-pressed=true]:has-text('Least certain first')")
    page.wait_for_selector(".tiles[aria-busy=false] .tile .sure")
    shares = "[...document.querySelectorAll('.sure')].map((each) => parseFloat(each.textContent))"
    expect(page, lambda: (found := page.evaluate(shares)) == sorted(found), True)
    assert not page.query_selector_all("select")


def test_another_models_suggestion_is_hidden_until_a_key_shows_it(
    tmp_path: Path, photos: Path, visit: Visit
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
