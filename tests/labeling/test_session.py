"""The whole loop without a page: a model that learns, its audit, classes that change, a project opened again."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored, houses, tickets

from jostle.labeling import Answers, Session
from jostle.labeling.audit import audit_sample
from jostle.labeling.store import QueueEntry
from jostle.labeling.training.learners import ProbeLearner, TrainingTargets


def test_labeling_starts_at_once_and_without_torch(colors: Path) -> None:
    code = (
        "import sys; from jostle.labeling import Session; "
        f"s = Session.open({str(colors)!r}, answers=['a', 'b']); "
        "q = s.ask(3); s.tell(q[0].key, 'a'); s.content(q[1].key); s.progress(); s.undo(); s.answers(); s.doubts(); "
        "s.disagreements(); s.suggestion(q[0].key); s.grid('a'); assert len(q) == 3; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_model_learns_and_the_audit_measures(on_both: Session) -> None:
    on_both.train()  # no label yet: a first ranking that covers the pool
    asked = labeled(on_both, 20)
    for _ in range(3):
        on_both.train()
        asked += labeled(on_both, 20)
    on_both.train()
    assert len(set(asked)) == 80  # nothing is asked twice
    accuracy = on_both.accuracy()
    assert accuracy.estimate > 0.8
    assert accuracy.low < accuracy.estimate <= accuracy.high
    by = purposes(on_both)
    assert sum(by[key] == "audit" for key in asked) == pytest.approx(0.15 * 80, abs=3)
    progress = on_both.progress()
    assert (progress.answered, progress.left, progress.examples) == (80, 70, 150)
    assert progress.counts.keys() == set(COLORS)
    assert [point.trained for point in progress.curve] == sorted(point.trained for point in progress.curve)
    assert len(progress.kappas) == 3
    assert progress.advice.headline


def test_audit_answers_stay_out_of_training_and_selection(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = set[str]()
    keys: list[str] = []
    learn, pool = ProbeLearner.learn, ProbeLearner.pool

    def read(self: Any, names: Any) -> Any:
        keys[:] = names
        return pool(self, names)

    def watch(self: Any, data: Any, goal: TrainingTargets, seed: int) -> Any:
        learned.update(keys[place] for place in goal.places)
        return learn(self, data, goal, seed)

    monkeypatch.setattr(ProbeLearner, "pool", read)
    monkeypatch.setattr(ProbeLearner, "learn", watch)
    session.train()
    for _ in range(5):
        labeled(session, 20)
        session.train()
    audited = set(audit_sample(session).labels)
    assert len(audited) >= 5
    assert learned
    assert not learned & audited


def test_an_audited_example_that_the_strategy_comes_to_counts_no_more(session: Session) -> None:
    session.index.refresh()
    keys = sorted(purposes(session))
    session.store.begin_round([QueueEntry(key, "audit") for key in keys[:2]], {})
    labeled(session, 2)
    assert set(audit_sample(session).labels) == set(keys[:2])
    session.store.begin_round([QueueEntry(keys[place], "pick") for place in (5, 0, 6, 1)], {})
    labeled(session, 1)
    assert set(audit_sample(session).labels) == set(keys[:2])  # neither was passed yet
    labeled(session, 1)
    sample = audit_sample(session)
    assert set(sample.labels) == {keys[1]}
    assert len(sample.keys) == 150 - 2 - 1  # two picked, one wanted


def test_suggestions_and_the_grid_show_what_the_model_says_but_never_of_the_audit(trained: Session) -> None:
    by = purposes(trained)
    assert trained.suggestion(next(key for key, purpose in by.items() if purpose == "audit")) is None
    found = trained.suggestion(next(key for key, purpose in by.items() if purpose is None))
    assert found.answer in COLORS
    assert 1 / 3 <= found.confidence <= 1
    cards = trained.grid("red", 10)
    assert [card.suggestion.answer for card in cards] == ["red"] * 10
    sure = [card.suggestion.confidence for card in cards]
    assert sure == sorted(sure, reverse=True)  # type: ignore[type-var]
    assert all(by[card.question.key] is None for card in cards)
    first = cards[0].question.key
    trained.tell(first, "red")
    assert purposes(trained)[first] == "pick"
    assert first not in [card.question.key for card in trained.grid("red", 10)]


def test_what_a_grid_showed_measures_nothing(trained: Session) -> None:
    """A card that the audit comes to is answered with the model's word beside it, or left for being unclear."""
    before = audit_sample(trained)
    shown = [card.question.key for card in trained.grid("red", 10)]
    counted = audit_sample(trained)
    dropped = len(before.labels) - len(counted.labels)  # audited ones among the surest
    assert len(counted.keys) == len(before.keys) - 10 - dropped
    trained.store.begin_round([QueueEntry(shown[0], "audit")], {})
    assert [question.key for question in trained.ask(1, "bob")] == [shown[0]]
    trained.tell(shown[0], "red")
    assert purposes(trained)[shown[0]] == "audit"
    assert audit_sample(trained) == counted


def test_doubts_are_the_wrong_answers(session: Session) -> None:
    session.train()
    wrong = set()

    def now_and_then(name: str) -> str:
        true = color_in(name)
        if int(name[:3]) % 10 == 4:
            wrong.add(name)
            return COLORS[(COLORS.index(true) + 1) % 3]
        return true

    labeled(session, 90, say=now_and_then)
    session.train()
    by = purposes(session)
    doubts = session.doubts(8)
    assert sum(doubt.question.name in wrong for doubt in doubts) >= 5
    assert all(by[doubt.question.key] != "audit" for doubt in doubts)
    assert [doubt.strength for doubt in doubts] == sorted((doubt.strength for doubt in doubts), reverse=True)
    worst = doubts[0].question
    session.correct(worst.key, color_in(worst.name), "reviewer")
    assert session.labels()[worst.key] == color_in(worst.name)
    assert worst.key not in [doubt.question.key for doubt in session.doubts(8)]


def test_answers_can_be_searched_and_paged(session: Session) -> None:
    labeled(session, 12, "ann")
    [skipped] = session.ask(1, "bob")
    session.skip(skipped.key, "bob")
    page = session.answers(page=1, size=5)
    assert (page.total, page.pages, len(page.entries)) == (13, 3, 5)
    assert page.entries[0].act == "skip"
    assert session.answers("BOB").total == 1
    red = session.answers("red")
    told = [entry for entry in session.answers(size=99).entries if entry.act != "skip"]
    assert red.total == sum("red" in entry.question.name for entry in told) + ("red" in skipped.name)
    assert session.answers("nothing of the kind").total == 0
    assert session.answers(page=99, size=5).page == 3


def test_answers_are_found_by_what_was_shown(tmp_path: Path) -> None:
    table = tickets(tmp_path / "tickets.csv", 40)
    session = Session.open(table, text="message", answers=("billing", "bug", "praise"))
    for question in session.ask(8):
        session.tell(question.key, "bug")
    words = {e.question.name: session.content(e.question.key).texts[0] for e in session.answers().entries}
    assert session.answers("ERROR").total == sum("error" in text for text in words.values()) > 0
    table.write_text("id,message\nother,nothing\n")  # what is gone has no words any more
    session.index.refresh()
    assert session.answers("error").total == 0
    fields = Session.open(houses(tmp_path / "houses.csv", 20), answers=Answers("number"), hide=("price",))
    for question in fields.ask(20):
        fields.tell(question.key, 1.0)
    assert 0 < fields.answers("north").total < 20


def test_a_goal_is_read_as_the_answers_are(tmp_path: Path) -> None:
    table = houses(tmp_path / "houses.csv", 20)
    Session.open(table, answers=Answers("number"), hide=("price",), goal=20_000).close()
    again = Session.open(project=tmp_path / "houses.labels", goal="15000")
    assert again.settings.goal == 15_000
    again.close()
    for wrong in ("90%", "-1", "nan"):
        with pytest.raises(ValueError, match="takes a mean error"):
            Session.open(project=tmp_path / "houses.labels", goal=wrong)
    classes = Session.open(tickets(tmp_path / "t.csv", 20), text="message", answers=("a", "b"), goal="95 %")
    assert classes.settings.goal == 0.95
    with pytest.raises(ValueError, match="takes a share"):
        Session.open(project=tmp_path / "t.labels", goal=95)


def test_two_people_disagree_and_a_correction_settles_it(colors: Path) -> None:
    session = Session.open(colors, answers=COLORS, overlap=1.0, encoder="pixels")
    labeled(session, 6, "ann")
    shared = session.ask(6, "bob")
    assert {question.key for question in shared} == set(session.labels())  # second opinions come first
    for place, question in enumerate(shared):
        true = COLORS.index(color_in(question.name))
        session.tell(question.key, COLORS[(true + (place < 2)) % 3], "bob")
    found = session.disagreements()
    assert len(found) == 2
    assert set(found[0].answers) == {"ann", "bob"}
    assert found[0].consensus in found[0].answers.values()
    agreement = session.progress().agreement
    assert agreement < 1
    session.correct(found[0].question.key, "blue", "cleo")
    assert session.labels()[found[0].question.key] == "blue"
    assert len(session.disagreements()) == len(found) - 1


def test_classes_are_renamed_merged_and_added_after_a_hundred_answers(on_both: Session) -> None:
    on_both.train()
    labeled(on_both, 100)
    on_both.train()
    on_both.rename_class("red", "scarlet")
    assert on_both.progress().counts.keys() == {"scarlet", "green", "blue"}
    assert "red" not in on_both.labels().values()
    key = labeled(on_both, 1)[0]  # a page that was open still says red, green or blue
    assert on_both.labels()[key] in ("scarlet", "green", "blue")
    before = on_both.progress().counts
    on_both.merge_class("blue", "green")
    after = on_both.progress().counts
    assert after == {"scarlet": before["scarlet"], "green": before["green"] + before["blue"]}
    on_both.add_class("gray")
    [question] = on_both.ask(1)
    on_both.tell(question.key, "gray")
    assert on_both.suggestion(next(k for k, p in purposes(on_both).items() if p is None)) is not None
    assert (
        on_both.accuracy().estimate is not None
    )  # the old model still measures, its classes as they are now
    on_both.train()
    assert {card.suggestion.answer for card in on_both.grid("green", 5)} == {"green"}
    accuracy = on_both.accuracy()
    assert accuracy.estimate > 0.6
    with pytest.raises(ValueError, match="there is a class 'green' already: merge 'gray' into it"):
        on_both.rename_class("gray", "Green")
    with pytest.raises(ValueError, match="the same class"):
        on_both.merge_class("blue", "green")
    with pytest.raises(ValueError, match="'scarlet' and 'SCARLET' differ only in case"):
        on_both.add_class("SCARLET")
    on_both.rename_class("scarlet", "Scarlet")
    assert on_both.classes() == ["Scarlet", "green", "gray"]


def test_a_project_goes_on_where_it_was(colors: Path) -> None:
    first = Session.open(colors, answers=COLORS, batch=20, encoder="pixels")
    first.train()
    asked = labeled(first, 20)
    first.rename_class("red", "scarlet")
    first.train()
    held = [question.key for question in first.ask(3)]
    first.close()
    again = Session.open(colors, answers=COLORS, batch=20, encoder="pixels")
    assert again.classes() == ["scarlet", "green", "blue"]  # red is not begun anew
    assert [question.key for question in again.ask(3)] == held
    assert set(again.labels()) == set(asked)
    assert again.predictions() is not None
    with pytest.raises(ValueError, match="answers of the kind 'one', not 'number'"):
        Session.open(colors, answers=Answers("number"))
    with pytest.raises(ValueError, match="'red' and 'Red' differ only in case"):
        Session.open(colors, project=colors / "new", answers=["red", "Red"])
    assert Session.open(colors).kind == "one"


def test_data_that_changes_between_rounds(session: Session, colors: Path) -> None:
    session.train()
    labeled(session, 40)
    session.train()
    answered = session.answers(size=99).entries
    picked = next(entry for entry in answered if entry.purpose == "pick")
    (colors / picked.question.name).unlink()  # answered, then gone: its embedding is still learned from
    unasked = next(key for key, purpose in purposes(session).items() if purpose is None)
    gone = session.question(unasked).name
    (colors / gone).unlink()
    colored(1000).save(colors / "1000-green.png")
    (colors / "broken.png").write_bytes(b"nothing")
    session.train()
    assert unasked not in [question.key for question in session.ask(200)]
    progress = session.progress()
    assert progress.examples == 149
    assert (progress.unreadable_count, list(progress.unreadable)) == (1, ["broken.png"])
    trained = session.store.rounds()[-1][2]["trained"]
    assert trained == sum(entry.purpose == "pick" for entry in answered)
