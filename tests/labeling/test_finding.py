"""Find all of a class: what is asked, the bound on recall, and when to stop."""

from pathlib import Path

import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder

from jostle.labeling import Session
from jostle.labeling.audit import stopping
from jostle.labeling.training import is_round_due


def say(name: str) -> str:
    return "red" if color_in(name) == "red" else "other"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    folder = colored_folder(tmp_path / "photos", 240)
    for place, path in enumerate(sorted(folder.glob("*-red.png"))):
        if place % 3:
            path.unlink()  # a rarer class
    return Session.open(
        folder, answers=["red", "other"], batch=20, encoder="pixels", find="red", audit=0.5, goal="90%"
    )


def test_a_search_finds_the_class_and_stops_by_a_bound_that_holds(session: Session) -> None:
    session.train()
    names = list(session.source.places())
    total = sum(say(name) == "red" for name in names)
    answers = 0
    while not session.advice().stop:
        labeled(session, 10, say=say)
        answers += 10
        if is_round_due(session):
            session.train()
        found = stopping.recall(session)
        assert found.low <= found.found / total + 1e-9  # at every look
        assert found.missed >= total - found.found
    assert found.reached
    assert found.found / total >= 0.9
    assert answers < len(names)
    assert session.accuracy().goal is None


def test_picks_go_by_the_chance_of_the_class(session: Session) -> None:
    session.train()
    labeled(session, 40, say=say)
    session.train()
    labeled(session, 20, say=say)
    snapshot, red = session.snapshot(), session.book.classes().number("red")
    late = sorted(snapshot.answers, key=lambda one: one.seq)[-20:]
    shares = {
        purpose: [snapshot.labels[one.key] == red for one in late if one.purpose == purpose]
        for purpose in ("pick", "audit")
    }
    assert sum(shares["pick"]) / len(shares["pick"]) > sum(shares["audit"]) / len(shares["audit"])
    assert set(purposes(session).values()) == {"pick", "audit", None}


def test_a_class_that_there_is_not(tmp_path: Path) -> None:
    folder = colored_folder(tmp_path / "photos", 9)
    with pytest.raises(ValueError, match="must be one of red, green, blue; got 'mauve'"):
        Session.open(folder, answers=COLORS, find="mauve")
    assert not (tmp_path / "photos.labels").exists()
