"""Simulated labeling: true answers, mistakes, and the count of answers against random picks."""

import json
from pathlib import Path

import pytest
from labeling_data import tickets
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.simulation import (
    Measurement,
    Study,
    answers_needed,
    run_study,
    target_values,
)
from jostle.labeling.store.schema import examples


def test_answers_needed_by_hand() -> None:
    def run(arm: str, seed: int, *values: float) -> list[Measurement]:
        return [Measurement(arm, seed, 10 * i, value, None, 0, 1) for i, value in enumerate(values)]

    marks = (
        run("chosen", 0, 0.5, 0.7, 0.9) + run("chosen", 1, 0.8, 0.7, 0.9) + run("chosen", 2, 0.1, 0.2, 0.3)
    )
    marks += (
        run("random", 0, 0.5, 0.6, 0.7) + run("random", 1, 0.2, 0.3, 0.4) + run("random", 2, 0.0, 0.9, 0.9)
    )
    [need] = answers_needed(marks, [0.8], smaller_is_better=False)
    assert need.by_arm["chosen"] == [pytest.approx(15), 0, None]
    assert need.median("chosen") == pytest.approx(15)
    assert need.by_arm["random"] == [None, None, pytest.approx(10 * 0.8 / 0.9)]
    assert need.median("random") is None
    [error] = answers_needed(
        run("chosen", 0, 9.0, 5.0, 1.0) + run("random", 0, 9.0, 8.0, 7.0), [3.0], smaller_is_better=True
    )
    assert (error.median("chosen"), error.median("random")) == (pytest.approx(15), None)
    assert error.saved_share() is None
    [both] = answers_needed(marks, [0.55], smaller_is_better=False)
    assert both.saved_share() == pytest.approx(1 - 2.5 / (10 * 0.55 / 0.9))
    assert target_values(run("random", 0, 0.5, 0.7) + run("random", 1, 0.7, 0.9)) == [0.7, 0.75, 0.78, 0.8]


def test_a_study_goes_on_where_it_was_and_never_asks_what_it_measures_with(tmp_path: Path) -> None:
    data = tickets(tmp_path / "t.csv", 90)
    opening = {"text": "message", "batch": 10, "encoder": "words"}
    study = Study(str(data), "topic", answers=20, seeds=1, opening=opening)
    said: list[str] = []
    marks = run_study(study, tmp_path / "out", said.append)
    assert said == ["chosen picks, seed 0", "random picks, seed 0"]
    assert [(mark.arm, mark.answers) for mark in marks] == [
        ("chosen", 10),
        ("chosen", 20),
        ("random", 10),
        ("random", 20),
    ]
    assert run_study(study, tmp_path / "out", said.append) == marks
    assert len(said) == 2
    more = run_study(
        Study(str(data), "topic", answers=20, seeds=2, opening=opening), tmp_path / "out", said.append
    )
    assert [mark for mark in more if mark.seed == 0] == marks
    last = Session.open(data, project=tmp_path / "out" / "project", text="message", hide=["topic"])
    answered = set(last.labels())
    assert len(answered) == 20
    with pytest.raises(ValueError, match="holds another simulation"):
        run_study(Study(str(data), "topic", answers=30, opening=opening), tmp_path / "out")
    lines = (tmp_path / "out" / "chosen-0.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["arm"] == "chosen"
    with last.store.read_transaction() as tx:
        test = set(tx.execute(select(examples.c.key).where(examples.c.purpose == "test")).scalars())
    assert len(test) == pytest.approx(27, abs=12)
    assert not test & answered
