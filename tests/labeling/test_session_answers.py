"""Kinds of answers: texts, numbers, several classes, answers that the data has; what is refused and taken back."""

from pathlib import Path

import pytest
from answering import color_in, labeled, purposes
from labeling_data import houses, tickets

from jostle.labeling import Answers, Session
from jostle.labeling.simulation import answer_all, read_truth
from jostle.labeling.store import UnknownKeyError


def test_texts(tmp_path: Path) -> None:
    session = Session.open(
        tickets(tmp_path / "t.csv"), text="message", hide=["topic"], answers=["billing", "bug", "praise"],
        batch=30, encoder="words",
    )  # fmt: skip
    truth = read_truth(session.source, "topic", "one")
    for _ in range(3):
        session.train()
        answer_all(session, truth, 30)
    session.train()
    accuracy = session.accuracy()
    assert accuracy.estimate > 0.7
    content = session.content(session.ask(1)[0].key)
    assert (content.kind, content.mime) == ("text", "")


def test_numbers(tmp_path: Path) -> None:
    session = Session.open(
        houses(tmp_path / "h.csv"), hide=["price"], answers=Answers("number"), batch=20, goal=25.0, audit=0.3
    )
    truth = read_truth(session.source, "price", "number")
    for _ in range(4):
        session.train()
        answer_all(session, truth, 20)
    session.train()
    accuracy = session.accuracy()
    assert accuracy.measure == "mean error"
    assert accuracy.estimate < 15
    assert accuracy.low <= accuracy.estimate <= accuracy.high
    assert session.progress().counts == {}
    found = session.suggestion(next(k for k, p in purposes(session).items() if p is None))
    assert (found.confidence, type(found.answer)) == (None, float)
    key = session.ask(1)[0].key
    for wrong in ("many", float("nan"), True):
        with pytest.raises(ValueError, match="expected a"):
            session.tell(key, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no classes to add to"):
        session.add_class("dear")
    session.tell(key, 1e6)
    session.train()
    assert purposes(session)[key] == "audit" or key in [doubt.question.key for doubt in session.doubts()]


def test_several_classes(colors: Path) -> None:
    session = Session.open(
        colors, answers=Answers("several", ("warm", "cold", "odd")), batch=30, encoder="pixels"
    )

    def said(name: str) -> list[str]:
        kind = {"red": ["warm"], "green": ["cold"], "blue": ["cold", "odd"]}
        return kind[color_in(name)]

    for _ in range(3):
        session.train()
        labeled(session, 30, say=said)
    session.train()
    accuracy = session.accuracy()
    assert accuracy.estimate > 0.6
    cards = session.grid("odd", 5)
    assert cards
    assert all("odd" in card.suggestion.answer for card in cards)  # type: ignore[operator]
    key = session.ask(1)[0].key
    session.tell(key, [])
    assert session.labels()[key] == ()
    with pytest.raises(ValueError, match="expected a list"):
        session.tell(key, "warm")
    with pytest.raises(ValueError, match="did you mean 'cold'"):
        session.tell(key, ["cald"])


def test_answers_that_the_data_has_already(tmp_path: Path) -> None:
    path = houses(tmp_path / "h.csv")
    lines = path.read_text().splitlines()
    half = [line if place < 60 else line.rpartition(",")[0] + "," for place, line in enumerate(lines)]
    path.write_text("\n".join(half) + "\n")
    session = Session.open(path, answers=Answers("number"), known="price")
    session.train()
    session.train()
    assert len(session.labels()) == 59
    assert session.predictions() is not None
    assert {entry.person for entry in session.answers().entries} == {"data"}
    assert session.ask(1)[0].name not in {f"h{number}" for number in range(59)}


def test_unknown_keys_and_people_are_refused(session: Session) -> None:
    with pytest.raises(UnknownKeyError):
        session.tell("0" * 32, "red")
    with pytest.raises(UnknownKeyError):
        session.content("../../etc/passwd")
    for person in ("", " ", "x" * 101, "a\x00b"):
        with pytest.raises(ValueError, match="a person has a name"):
            session.ask(1, person)
