"""Many answers at once, and remarks: recorded, undone, found and exported."""

import csv
import json
from pathlib import Path

import pytest
from answering import purposes
from labeling_data import COLORS
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.export import export
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.edits import MAX_NOTE_LENGTH, BulkAnswer, search_remarks, tell_many, undo_bulk
from jostle.labeling.store.schema import events


def keys_of(session: Session, n: int) -> list[str]:
    session.index.refresh()
    return session.store.find_keys()[:n]


def give(session: Session, keys: list[str], answer: str, bulk: str, person: str = "ada") -> None:
    tell_many(session, bulk, [BulkAnswer(f"{bulk}-{key}", key, answer) for key in keys], person)


def test_answers_at_once_count_like_answers_one_by_one(session: Session) -> None:
    keys = keys_of(session, 6)
    give(session, keys[:4], "red", "first-bulk")
    session.tell(keys[4], "blue", "ada")
    assert session.labels() == {**dict.fromkeys(keys[:4], "red"), keys[4]: "blue"}
    assert {purposes(session)[key] for key in keys[:5]} == {"pick"}
    give(session, keys[:4], "red", "first-bulk")  # sent again
    assert len(session.store.rows(select(events))) == 5


def test_one_undo_withdraws_a_whole_bulk_and_nothing_else(session: Session) -> None:
    keys = keys_of(session, 6)
    session.tell(keys[0], "blue", "ada")
    give(session, keys[:3], "red", "first-bulk")
    give(session, keys[2:5], "green", "second-bulk")
    assert set(undo_bulk(session.store, "second-bulk", "bob")) == set()  # it is not theirs
    assert set(undo_bulk(session.store, "second-bulk", "ada")) == set(keys[2:5])
    assert session.labels() == dict.fromkeys(keys[:3], "red")
    assert undo_bulk(session.store, "second-bulk", "ada") == []  # it is undone once
    undo_bulk(session.store, "first-bulk", "ada")
    assert session.labels() == {keys[0]: "blue"}  # what was said before
    assert len(session.store.rows(select(events))) == 1 + 3 + 3 + 3 + 3  # nothing is deleted


def test_an_undone_bulk_leaves_no_questions_behind(session: Session) -> None:
    keys = keys_of(session, 5)
    session.store.mark_wanted(keys[:3])  # they were shown
    give(session, keys[:3], "red", "first-bulk")
    undo_bulk(session.store, "first-bulk", "ada")
    assert {purposes(session)[key] for key in keys[:3]} == {None}


def test_a_bulk_corrects_what_somebody_else_has_answered(session: Session) -> None:
    first, second = keys_of(session, 2)
    session.tell(first, "blue", "bob")
    give(session, [first, second], "red", "first-bulk")
    assert session.labels() == {first: "red", second: "red"}
    assert not session.disagreements()
    undo_bulk(session.store, "first-bulk", "ada")
    assert session.labels() == {first: "blue"}


def test_a_bulk_with_a_wrong_answer_or_key_is_not_recorded_in_part(session: Session) -> None:
    first, second = keys_of(session, 2)
    good = BulkAnswer("good-answer", first, COLORS[0])
    for bad, error in (
        (BulkAnswer("bad-answer", second, "purple"), ValueError),
        (BulkAnswer("bad-key-000", "0" * 32, COLORS[0]), UnknownKeyError),
    ):
        with pytest.raises(error):
            tell_many(session, "first-bulk", [good, bad], "ada")
        assert session.labels() == {}


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
