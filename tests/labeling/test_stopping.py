"""Results from answers: advice to go on or to stop, kappa, figures by class, confusions, label noise, savings."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder
from sklearn.metrics import cohen_kappa_score

from jostle.labeling import Session, audit
from jostle.labeling.audit import stopping
from jostle.labeling.audit.stopping import advise, estimate_gain, is_stable
from jostle.labeling.records import Accuracy, Point, Proof
from jostle.statistics.agreement import concordance, kappa

GOOD = Accuracy("accuracy", 0.97, 0.955, 0.985, 0.95, 200, 5000, 8, 0.95, True)
STEADY = [0.9, 0.992, 0.995, 0.996]


def curve(*estimates: float, step: int = 100) -> list[Point]:
    return [Point(i + 1, (i + 1) * step, value, 0.0, 1.0, None) for i, value in enumerate(estimates)]


FLAT = curve(0.9, 0.95, 0.968, 0.969, 0.97, 0.97, 0.97, 0.97)
RISING = curve(0.5, 0.6, 0.7, 0.8, 0.9)


def test_a_proven_goal_ends_the_work() -> None:
    given = advise(GOOD, RISING, [0.9, 0.9, 0.9], left=1000)
    assert given.stop
    assert given.headline == "The goal is proven: at least 95.5 % of what is left is right. Stop here."

    below = replace(GOOD, low=0.9, reached=False)
    assert not advise(below, RISING, STEADY, left=1000).stop  # stable predictions are not enough


def test_no_headline_ends_the_work_under_an_unmet_goal_without_saying_so() -> None:
    below = replace(GOOD, low=0.9, reached=False, goal=0.99)
    given = advise(below, FLAT, STEADY, left=1000, proof=Proof(None, 600, 0))
    assert given.stop
    assert "the goal of 99.0 % is not proven" in given.headline
    without = advise(replace(below, goal=None), FLAT, STEADY, left=1000)
    assert without.headline == "More answers bring little: stop here."
    assert not advise(replace(below, audited=10), FLAT, STEADY, left=1000).stop  # too few to say so
    proofs = (None, Proof(None, 600, 0), Proof(None, 600, 25), Proof(60, 600, 0), Proof(60, 600, 25))
    numbers = replace(below, measure="mean error", low=0.1, high=0.2, goal=0.05)
    cases = (below, numbers, replace(below, estimate=None)), (FLAT, RISING, []), (STEADY, [0.5], []), proofs
    for found, points, kappas, proof in itertools.product(*cases):
        given = advise(found, points, kappas, 1000, proof)
        assert "not proven" in given.headline or not given.stop, (found, proof, given)


def test_a_proof_within_reach_comes_before_stopping() -> None:
    below = replace(GOOD, low=0.9, reached=False)
    settled = advise(below, FLAT, STEADY, left=1000, proof=Proof(60, 600, 0))
    assert not settled.stop
    assert "about 60 more random answers" in settled.reasons[1]
    assert "25 random questions come next" in advise(below, FLAT, STEADY, 1000, Proof(60, 600, 25)).headline


def test_what_the_next_hundred_bring() -> None:
    # linear in log answers: 0.1 for each doubling, so from 400 to 500 it is 0.1 * log2(1.25)
    points = [Point(0, trained, value, 0, 1, None) for trained, value in ((100, 0.6), (200, 0.7), (400, 0.8))]
    assert estimate_gain(points, smaller_is_better=False) == pytest.approx(0.1 * 0.32193, rel=1e-4)
    assert estimate_gain(points, smaller_is_better=True) == pytest.approx(-0.1 * 0.32193, rel=1e-4)
    assert estimate_gain(points[:2], smaller_is_better=False) is None
    assert "not a promise" in advise(GOOD, points, STEADY, 10).reasons[1]


def test_figures_are_written_as_on_the_page() -> None:
    falling_a_little = curve(0.97, 0.97, 0.97, 0.97, 0.9699)
    given = advise(GOOD, falling_a_little, STEADY, 10)
    assert "At least 95.5 % of predictions are right with 95 % confidence" in given.reasons[0]
    assert "about +0.0 points" in given.reasons[1]
    assert "kappa 0.994" in given.details[0]
    assert "differ by at most 1.6 points" in given.details[0]


def test_errors_of_numbers_have_to_fall() -> None:
    error = Accuracy("mean error", 12.0, 10.0, 14.0, 0.95, 100, 900, 6, 15.0, True, 300.0)
    falling = curve(30, 20, 16, 14, 12)
    given = advise(error, falling, STEADY, left=100)
    assert given.stop
    assert given.gain > 0
    assert "at most 14" in given.reasons[0]


def test_kappa_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    assert kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))


def test_concordance_by_hand() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    assert concordance(first, second) == pytest.approx(1 - 1 / (2 / 3 + 2 / 3 + 1))
    assert concordance(first, first) == 1


def test_the_mean_of_the_last_three_decides() -> None:
    assert not is_stable([0.999, 0.999])
    assert is_stable([0.2, 0.98, 0.99, 1.0])
    assert not is_stable([1.0, 1.0, 1.0, 0.9])


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
