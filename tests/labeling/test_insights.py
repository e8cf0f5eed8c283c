"""By class, confusions, label noise and savings, from a project's own answers."""

from pathlib import Path

import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder

from jostle.labeling import Session, audit
from jostle.labeling.audit import stopping


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A project with 80 audited answers, and green taken for blue by the people in every fourth case."""
    folder = colored_folder(tmp_path_factory.mktemp("insights") / "photos", 300)
    opened = Session.open(folder, answers=COLORS, batch=40, encoder="pixels", audit=0.5)
    opened.train()
    for _ in range(4):
        labeled(opened, 45, say=lambda name: "blue" if name[:3].endswith(("1", "5")) else color_in(name))
        opened.train()
    return opened


def test_bounds_by_class_hold(session: Session) -> None:
    sample = audit.audit_sample(session)
    figures = {each.name: each for each in stopping.by_class(session, sample)}
    assert figures.keys() == set(COLORS)
    assert sum(each.answered for each in figures.values()) == len(sample.labels)
    assert figures["red"].recall is None or figures["red"].recall <= 1
    assert any(each.precision is not None for each in figures.values())


def test_confusions_show_no_audited_example(session: Session) -> None:
    found = stopping.confusions(session)
    assert found
    assert found[0].count >= found[-1].count
    by = purposes(session)
    assert all(by[each.key] != "audit" for one in found for each in one.examples)
    assert all(one.answer != one.prediction for one in found)


def test_savings_are_shown_from_sixty_audited_answers_on(session: Session) -> None:
    found = stopping.savings(session)
    if found is not None:  # None where the first model is as good as all random answers
        assert found.random_labels >= 42
        assert found.low is None or found.low <= found.random_labels - found.picks <= found.high
    last = [summary for _, _, summary in session.store.rounds()][-1]
    assert last["shadow"]["labels"] >= 42
    assert all(error is None or 0 <= error <= 1 for error in last["shadow"]["errors"])
    few = next(summary for _, _, summary in session.store.rounds() if summary.get("model"))
    assert "shadow" not in few  # a first model has too few audited answers


def test_noise_is_told_where_two_people_answered(tmp_path: Path) -> None:
    folder = colored_folder(tmp_path / "photos", 60)
    session = Session.open(folder, answers=COLORS, encoder="pixels", overlap=1.0)
    assert stopping.noise(session, 0.2) is None
    for person, shift in (("ann", 0), ("bob", 1)):
        for place in range(40):
            [question] = session.ask(1, person)
            true = COLORS.index(color_in(question.name))
            wrong = shift * (int(question.name[:3]) % 5 == 0)
            session.tell(question.key, COLORS[(true + wrong) % 3], person, seconds=1 + place % 2)
    found = stopping.noise(session, 0.3)
    assert found.twice >= 20
    assert 0 < found.answer_error < 0.25
    assert found.model_error < 0.3
