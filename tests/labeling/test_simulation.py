"""Simulated labeling: true answers, mistakes, and the count of answers against random picks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from labeling_data import tickets

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

    values = {
        "chosen": [(0.5, 0.7, 0.9), (0.8, 0.7, 0.9), (0.1, 0.2, 0.3)],
        "random": [(0.5, 0.6, 0.7), (0.2, 0.3, 0.4), (0.0, 0.9, 0.9)],
    }
    marks = [
        mark
        for arm, runs in values.items()
        for seed, each in enumerate(runs)
        for mark in run(arm, seed, *each)
    ]
    [need] = answers_needed(marks, [0.8], smaller_is_better=False)
    assert need.by_arm["chosen"] == [pytest.approx(15), 0, None]
    assert need.median("chosen") == pytest.approx(15)
    assert need.by_arm["random"] == [None, None, pytest.approx(10 * 0.8 / 0.9)]
    assert need.median("random") is None
    errors = run("chosen", 0, 9.0, 5.0, 1.0) + run("random", 0, 9.0, 8.0, 7.0)
    [error] = answers_needed(errors, [3.0], smaller_is_better=True)
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
    expected = [(arm, answers) for arm in ("chosen", "random") for answers in (10, 20)]
    assert [(mark.arm, mark.answers) for mark in marks] == expected
    assert run_study(study, tmp_path / "out", said.append) == marks
    assert len(said) == 2
    more = run_study(replace(study, seeds=2), tmp_path / "out", said.append)
    assert [mark for mark in more if mark.seed == 0] == marks
    last = Session.open(data, project=tmp_path / "out" / "project", text="message", hide=["topic"])
    answered = set(last.labels())
    assert len(answered) == 20
    with pytest.raises(ValueError, match="holds another simulation"):
        run_study(replace(study, answers=30), tmp_path / "out")
    lines = (tmp_path / "out" / "chosen-0.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["arm"] == "chosen"
    test = set(last.store.find_keys(examples.c.purpose == "test"))
    assert len(test) == pytest.approx(27, abs=12)
    assert not test & answered
