"""Many answers at once are events like any other, recorded and undone as one."""

import pytest
from answering import purposes
from labeling_data import COLORS
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.edits import BulkAnswer, tell_many, undo_bulk
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
