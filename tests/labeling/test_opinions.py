"""Second opinions: half at random, half where they change a label most."""

from pathlib import Path

import pytest
from answering import color_in, purposes
from labeling_data import COLORS, colored_folder

from jostle.labeling import Session
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.audit import queue
from jostle.labeling.store.schema import examples


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A project in which Ann answered 60 of 120 examples, six of them wrongly, and a model learned from them."""
    folder = colored_folder(tmp_path / "photos", 120)
    session = Session.open(folder, answers=COLORS, encoder="pixels", overlap=0.4, batch=30, audit=0.3)
    session.train()
    for place in range(60):
        [question] = session.ask(1, "ann")
        true = COLORS.index(color_in(question.name))
        session.tell(question.key, COLORS[(true + (place % 10 == 3)) % 3], "ann")
    session.train()
    return session


def wrong_picks(session: Session) -> set[str]:
    answers, by = session.snapshot().answers, purposes(session)
    names = session.classes()
    return {one.key for one in answers if names[one.value] != color_in(one.name) and by[one.key] == "pick"}  # type: ignore[index]


def test_a_doubtful_answer_is_asked_again_and_one_of_the_audit_never(session: Session) -> None:
    by = purposes(session)
    by_chance = {key for key in by if session.index.copies(key) > 1}
    steered = set(session.store.find_keys(examples.c.copies > 1)) - by_chance
    assert steered
    assert steered <= wrong_picks(session)
    assert {by[key] for key in steered} == {"pick"}
    asked = {question.key for question in session.ask(60, "bob")}
    assert steered <= asked


def test_the_share_of_wrong_answers_is_measured_on_the_random_half(session: Session) -> None:
    for question in session.ask(40, "bob"):
        session.tell(question.key, color_in(question.name), "bob")
    differed, twice = queue.count_disagreements(session)
    with_two = {one.key for one in session.snapshot().answers if one.person == "bob"}
    assert twice < len(with_two)
    assert differed <= len(wrong_picks(session))


def test_numbers_and_a_full_overlap_are_asked_at_random_alone() -> None:
    assert queue.random_share(ANSWER_TYPES["one"], 0.2) == 0.1
    assert queue.random_share(ANSWER_TYPES["one"], 1.0) == 1.0
    assert queue.random_share(ANSWER_TYPES["number"], 0.2) == 0.2
