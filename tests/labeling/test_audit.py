"""The audit of a project: its intervals from stored arrays, shares of alpha, proofs, and projects of release 0.2."""

from pathlib import Path

import numpy as np
import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder
from scipy.stats import beta

from jostle.labeling import Session, audit
from jostle.labeling.audit import queue
from jostle.labeling.records import Predictions, Proof
from jostle.labeling.training import is_round_due
from jostle.statistics import ALPHA, betting_interval


def test_the_interval_is_that_of_the_stored_chances(trained: Session) -> None:
    sample, found = audit.audit_sample(trained), Predictions.load(trained.round_folder(2))
    order = [found.places[key] for key in sample.keys]
    classes = trained.book.classes()
    wrong = [found.answer(found.places[key], classes) != label for key, label in sample.labels.items()]
    inside = betting_interval(
        np.array(wrong, dtype=float),
        found.chances[order],
        alpha=audit.model_shares(trained)[2],
        upper_share=audit.UPPER_SHARE,
    )
    accuracy = trained.accuracy()
    assert (accuracy.low, accuracy.high) == pytest.approx((1 - inside.high, 1 - inside.low))
    assert accuracy.population == len(sample.keys) == len(order)


def test_chances_come_from_training_answers_alone(trained: Session) -> None:
    before = trained.predictions()
    for key in audit.audit_sample(trained).labels:
        trained.correct(key, "red")
    trained._predicted.cache_clear()
    again = Session.open(project=trained.project)
    again.train()
    after = again.predictions()
    np.testing.assert_allclose(before.chances, after.chances, atol=0.1)  # other folds, the same answers


def test_an_answer_trains_from_when_its_example_has_left_the_audit(tmp_path: Path) -> None:
    folder = colored_folder(tmp_path / "photos", 80)
    session = Session.open(folder, answers=COLORS, batch=20, encoder="pixels", audit=0.4)
    session.train()
    for _ in range(2):
        labeled(session, 25)
        session.train()
    left, labels, by = audit.left_audit(session), session.snapshot().labels, purposes(session)
    assert left & labels.keys()
    assert not left & audit.audit_sample(session).labels.keys()
    picks = sum(by[key] == "pick" for key in labels)
    *_, (_, _, last) = session.store.rounds()
    assert last["trained"] == picks + len(left & labels.keys())


def test_without_stored_chances_the_probabilities_stand_in(trained: Session) -> None:
    """Rounds of release 0.2 kept predictions alone."""
    for folder in (trained.round_folder(2), trained.round_folder(2) / "audit"):
        held = dict(np.load(folder / "predictions.npz"))
        del held["chances"]
        np.savez(folder / "predictions.npz", **held)
    old = Session.open(project=trained.project)
    found = old.predictions()
    np.testing.assert_allclose(found.expected_errors, 1 - found.scores.max(1))
    assert old.accuracy().audited == trained.accuracy().audited
    assert 0 < old.accuracy().low < old.accuracy().high
    assert len(old.curve()) == 1


def test_all_models_together_spend_less_than_alpha(trained: Session) -> None:
    for _ in range(4):
        labeled(trained, 20)
        trained.train()
    shares = audit.model_shares(trained)
    assert len(shares) == 5
    assert sum(shares.values()) < ALPHA
    stored = {number: each["alpha"] for number, _, each in trained.store.rounds() if each.get("model")}
    assert shares == stored
    lax = Session.open(project=trained.project, goal="50%")  # another goal does not change what was spent
    assert audit.model_shares(lax) == stored
    assert sum(stored.values()) + audit.spend_share(lax, True) < ALPHA


def test_a_proof_asks_random_questions_and_trains_no_model(trained: Session) -> None:
    before = sum(purpose == "audit" for purpose in purposes(trained).values())
    assert trained.prove(12) == 12
    assert audit.proof_questions(trained) == 12
    asked = labeled(trained, 15)
    by = purposes(trained)
    assert sum(by[key] == "audit" for key in asked) == 12
    assert sum(purpose == "audit" for purpose in by.values()) == before + 12
    assert audit.proof_questions(trained) == 0
    assert not is_round_due(trained)
    drawn = list(audit.audit_sample(trained).labels)
    assert drawn == sorted(drawn, key=lambda key: audit.draw_uniform(trained.settings.seed, "audit", key))
    learned = [purposes(trained)[key] == "pick" for _ in range(25) for key in labeled(trained, 1)]
    assert sum(learned) >= 17
    assert is_round_due(trained)


def test_a_goal_that_the_model_meets_is_proven_with_few_questions(tmp_path: Path) -> None:
    folder = colored_folder(tmp_path / "photos", 300)
    session = Session.open(folder, answers=COLORS, batch=20, encoder="pixels", goal="80%")
    session.train()
    for _ in range(12):
        labeled(session, 10)
        if is_round_due(session):
            session.train()
        if session.accuracy().reached:
            break
    accuracy, wrong = session.accuracy(), 0
    assert accuracy.reached
    assert session.advice().stop
    found, classes = session.predictions(), session.book.classes()
    left = [key for key, purpose in purposes(session).items() if purpose != "pick"]
    for key in left:
        said = classes.names[int(found.answer(found.places[key], classes))]  # type: ignore[arg-type]
        wrong += said != color_in(session.question(key).name)
    assert 1 - wrong / len(left) >= accuracy.low  # by the truth
    assert queue.begin(session) == 0  # nothing is left to prove


def test_the_first_candidate_is_followed_by_questions_whatever_the_forecast(
    trained: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has most of alpha, which is lost if nobody asks."""
    monkeypatch.setattr(audit, "proof", lambda session, found: Proof(None, audit.FORECAST_LIMIT, 0))
    rounds = trained.store.rounds()
    number, at, last = rounds[-1]
    assert queue.begin(trained) == 0  # no candidate
    monkeypatch.setattr(
        trained.store, "rounds", lambda: [*rounds[:-1], (number, at, {**last, "candidate": True})]
    )
    assert queue.begin(trained) > queue.MIN_QUESTIONS
    monkeypatch.setattr(trained.store, "rounds", lambda: 2 * [(number, at, {**last, "candidate": True})])
    assert queue.begin(trained) == 0


def test_new_data_has_the_hard_examples_that_picks_took_away(trained: Session) -> None:
    found = audit.new_data(trained)
    assert found.low < found.estimate <= found.high
    predictions = trained.predictions()
    sample = audit.audit_sample(trained)
    others = {key: label for key, label in trained.snapshot().labels.items() if key not in sample.labels}
    known = audit.prediction_errors(predictions, others, trained.book.classes())
    rest = audit.measure(trained, sample, predictions).interval(ALPHA / 2, 0.5)
    most, size = known.sum() + len(sample.keys) * rest.high, len(known) + len(sample.keys)
    assert found.low == pytest.approx(1 - beta.ppf(1 - ALPHA / 4, most + 1, size - most))
