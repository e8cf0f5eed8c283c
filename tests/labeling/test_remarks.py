"""Remarks: unsure examples are asked again, of others first; notes and flags are found, exported and withdrawn."""

import csv
import json
from pathlib import Path

import pytest
from labeling_data import COLORS

from jostle.labeling import Session
from jostle.labeling.export import export
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.edits import MAX_NOTE_LENGTH, search_remarks


def answer_all(session: Session, person: str) -> list[str]:
    """Answer every question but the unsure ones; return the keys in the order in which they were asked."""
    asked = []
    while found := session.ask(1, person):
        asked.append(found[0].key)
        session.tell(found[0].key, COLORS[0], person)
    return asked


def test_unsure_goes_to_others_first_and_comes_again_at_the_end(session: Session) -> None:
    first, second = (question.key for question in session.ask(2, "Ada"))
    session.remark(first, "unsure", person="Ada")
    session.remark(second, "unsure", person="Ada")
    others = session.ask(200, "Bo")
    assert {first, second} <= {question.key for question in others}
    session.tell(first, COLORS[1], "Bo")
    session.release("Bo")
    asked = answer_all(session, "Ada")
    assert asked[-1] == second, "again, when nothing else is left"
    assert first not in asked, "somebody else was sure"


def test_who_takes_unsure_back_is_asked_at_once(session: Session) -> None:
    key = session.ask(1, "Ada")[0].key
    session.remark(key, "unsure", person="Ada")
    undone = session.undo("Ada")
    assert undone.key == key
    assert session.ask(1, "Ada")[0].key == key
    assert search_remarks(session) == []


def test_notes_and_flags_are_found_and_withdrawn(session: Session) -> None:
    one, two = session.ask(2, "Ada")
    session.remark(one.key, "note", "half of a Cat", "Ada")
    session.remark(one.key, "note", "a dog, I think", "Ada")
    session.remark(two.key, "flag", person="Bo")
    assert [each.text for each in search_remarks(session, "DOG")] == ["a dog, I think"]
    assert search_remarks(session, "cat") == [], "the last note counts"
    assert [each.key for each in search_remarks(session, kind="flag")] == [two.key]
    assert [each.key for each in search_remarks(session, two.name)] == [two.key]
    session.remark(one.key, "note", " ", "Ada")
    session.remark(two.key, "flag", None, "Bo")
    assert search_remarks(session) == []


def test_wrong_remarks_are_errors(session: Session) -> None:
    key = session.ask(1)[0].key
    with pytest.raises(ValueError, match="kind of remark"):
        session.remark(key, "loud")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=str(MAX_NOTE_LENGTH)):
        session.remark(key, "note", "x" * (MAX_NOTE_LENGTH + 1))
    with pytest.raises(UnknownKeyError):
        session.remark("0" * 32, "flag")


def test_remarks_are_exported(session: Session, tmp_path: Path) -> None:
    one, two = session.ask(2, "Ada")
    session.tell(one.key, COLORS[0], "Ada")
    session.remark(one.key, "note", "=SUM(1)", "Ada")
    session.remark(one.key, "flag", person="Bo")
    session.remark(two.key, "unsure", person="Ada")
    export(session, tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8-sig") as file:
        row = next(csv.DictReader(file))
    assert (row["notes"], row["flagged"], row["unsure"]) == ("Ada: =SUM(1)", "Bo", "")
    export(session, tmp_path / "labels.json")
    held = json.loads((tmp_path / "labels.json").read_text())
    said = {(each["kind"], each["key"]) for each in held["remarks"]}
    assert said == {("note", one.key), ("flag", one.key), ("unsure", two.key)}
