"""A labeler who tries to tell audit questions from picks, by everything that the server sends."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder
from running_server import Running
from sqlalchemy import event
from tools.serving import Person

from jostle.labeling import Session
from jostle.labeling.audit import AUDIT_FIGURES, REVEAL_STEP, HeldFigures, is_blind
from jostle.labeling.server.routes import to_json

ANSWERS = 60
Seen = tuple[list[dict[str, Any]], list[bool]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Everything that a person sees around each answer, and whether it was for the audit."""
    folder = colored_folder(tmp_path_factory.mktemp("blind") / "photos", 300)
    session = Session.open(folder, answers=COLORS, batch=60, encoder="pixels", audit=0.4)
    session.train()
    labeled(session, 60)
    session.train()
    running, held = Running(session), HeldFigures(lambda: to_json(session.progress()))
    eve = Person("Eve", running.port)
    views: list[dict[str, Any]] = []
    work: list[str] = []  # statements of the database, which take nearly all of the time of a reply
    event.listen(session.store.engine, "before_cursor_execute", lambda *call: work.append(call[2]))
    for _ in range(ANSWERS):
        work.clear()
        question = eve.questions(1)[0]
        suggestion = eve.call("GET", f"/api/suggestion/{question['key']}?person=Eve")[1]
        reply = eve.answer(question["key"], color_in(question["name"]))
        replies = work.copy()
        figures = held.get()  # as the server sends them, without its rests between two computations
        view = {"question": question, "suggestion": suggestion, "reply": reply}
        views.append({**view, "figures": figures, "work": replies})
    running.stop()
    by = purposes(session)
    return views, [by[view["question"]["key"]] == "audit" for view in views]


def test_a_question_says_nothing_but_its_content(seen: Seen) -> None:
    views, audited = seen
    shapes = {(tuple(sorted(view["question"])), tuple(sorted(view["reply"]))) for view in views}
    assert len(shapes) == 1
    assert 12 <= sum(audited) <= 40


def test_a_reply_takes_the_same_work_and_bytes_for_audit_and_picks(seen: Seen) -> None:
    costs = Counter(
        (len(json.dumps([{**view["question"], "name": ""}, view["reply"]])), *view["work"])
        for view in seen[0]
    )
    assert len(costs) == 1, costs


def test_a_missing_suggestion_is_as_likely_a_pick(seen: Seen) -> None:
    views, audited = seen
    hidden = np.array([view["suggestion"] == {"answer": None, "confidence": None} for view in views])
    truth = np.array(audited)
    assert hidden[truth].all()
    picks = (hidden & ~truth).sum()
    assert 0.5 * truth.sum() <= picks <= 1.6 * truth.sum()  # as many picks, up to chance


def test_no_figure_moves_with_a_single_answer(seen: Seen) -> None:
    views, _ = seen
    audit_figures = [{name: view["figures"][name] for name in AUDIT_FIGURES} for view in views]
    changes = [place for place in range(1, ANSWERS) if audit_figures[place] != audit_figures[place - 1]]
    assert changes  # they do move
    assert min(np.diff(changes)) >= REVEAL_STEP


def test_during_a_proof_no_question_has_a_suggestion(tmp_path: Path) -> None:
    session = Session.open(
        colored_folder(tmp_path / "photos", 300), answers=COLORS, encoder="pixels", goal="90%"
    )
    session.train()
    labeled(session, 40)
    session.train()
    session.prove(18)
    asked = [question.key for question in session.ask(20)]
    assert {purposes(session)[key] for key in asked} == {"pick", "audit"}
    assert all(is_blind(session, key) for key in asked)
    assert all(session.suggestion(key) is None for key in asked)


def test_held_figures_follow_after_a_few_answers() -> None:
    answered = iter([10, 11, 14, 15, 16])
    base = {**dict.fromkeys(AUDIT_FIGURES), "models": 1, "left": 5}
    held = HeldFigures(lambda: {**base, "answered": (n := next(answered)), "accuracy": n})
    assert [held.get()["accuracy"] for _ in range(5)] == [10, 10, 10, 15, 15]
