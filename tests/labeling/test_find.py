"""Finding by words, likeness, region and filters; what is displayed leaves the audit, blind to what was audited."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, WORDS, colored_folder, tickets
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.audit import audit_sample, stopping
from jostle.labeling.find import NO_COLOR, Finder, Search
from jostle.labeling.store.schema import examples
from jostle.labeling.training import is_round_due
from jostle.labeling.training.example_map import MapBuilder, answer_lookups, look_up


def mapped(session: Session) -> Finder:
    builder = MapBuilder(session)
    while builder.step():
        pass
    return Finder(session)


def audited(session: Session) -> set[str]:
    with session.store.read_transaction() as tx:
        return set(tx.execute(select(examples.c.key).where(examples.c.purpose == "audit")).scalars())


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[Session]:
    opened = Session.open(
        tickets(tmp_path / "tickets.csv"),
        answers=tuple(WORDS),
        text="message",
        hide=["topic"],
        encoder="words",
    )
    opened.train()
    yield opened
    opened.close()


def keys(finder: Finder, **search: object) -> list[str]:
    return [each.question.key for each in finder.find(Search(**search, n=200)).matches]  # type: ignore[arg-type]


def test_words_are_found_in_names_and_texts(trained: Session, texts: Session) -> None:
    named = Finder(trained).find(Search(words="-RED 12", n=200)).matches
    assert named
    assert all("-red" in each.question.name and "12" in each.question.name for each in named)
    found = Finder(texts).find(Search(words="Refund card", n=200))
    wanted = {
        content.key
        for content in texts.source.contents()
        if {"refund", "card"} <= set(content.texts[0].split())
    }
    assert found.total == len(wanted) > 0
    assert {each.question.key for each in found.matches} == wanted


def test_more_like_this_has_the_same_color(trained: Session) -> None:
    finder = mapped(trained)
    one = next(each for each in finder.find(Search(words="blue", n=1)).matches)
    found = finder.find(Search(like=one.question.key, n=12)).matches
    assert found[0].question.key == one.question.key
    assert sum("blue" in each.question.name for each in found) >= 9


def test_filters_agree_with_what_was_answered_and_predicted(trained: Session) -> None:
    finder, hidden = Finder(trained), audited(trained)
    assert hidden
    labels = {key: answer for key, answer in trained.labels().items() if key not in hidden}
    before = audit_sample(trained)
    assert set(keys(finder, answered=True)) == labels.keys()
    assert audit_sample(trained) == before, "what is answered is found without touching the audit"
    assert set(keys(finder, answer="green")) == {key for key, answer in labels.items() if answer == "green"}
    assert keys(finder, person="bob") == []
    assert set(keys(finder, person="you")) == labels.keys()
    predictions = trained.predictions()
    red = {key for key in predictions.keys if COLORS[predictions.best[predictions.places[key]]] == "red"}
    assert set(keys(finder, predicted="red")) == red - hidden
    doubtful = finder.find(Search(order="doubtful", n=50)).matches
    sure = [each.suggestion.confidence for each in doubtful if each.suggestion]
    assert sure == sorted(sure)  # type: ignore[type-var]


def test_what_was_displayed_leaves_the_audit_whether_audited_or_not(trained: Session) -> None:
    """The audited examples that the search passes over leave too: else those left would be a biased sample."""
    finder, before = Finder(trained), audit_sample(trained)
    order = finder._ordered(Search(answered=False))
    shown = finder.find(Search(answered=False, n=60)).matches
    assert len(shown) == 60
    assert not {each.question.key for each in shown} & audited(trained)  # nobody learns what is audited
    reached = order[: order.index(shown[-1].question.key) + 1]
    assert set(reached) & set(before.labels), "some that are audited are passed over"
    after = audit_sample(trained)
    assert set(after.labels) == set(before.labels) - set(reached)
    with trained.store.read_transaction() as tx:
        wanted = set(tx.execute(select(examples.c.key).where(examples.c.wanted)).scalars())
    assert wanted >= set(reached)
    assert not wanted & set(order[len(reached) :])  # only what was displayed counts


def test_a_dot_counts_once_somebody_looks_at_it(trained: Session) -> None:
    finder, before = mapped(trained), audit_sample(trained)
    for by in ("answer", "prediction", "doubt"):
        assert len(finder.colors(by)) == 150  # type: ignore[arg-type]
    assert audit_sample(trained) == before
    free = next(key for key in before.labels)
    assert finder.look(free).answer is None  # an audited example looks unanswered
    assert len(audit_sample(trained).keys) == len(before.keys) - 1


def test_colors_of_dots_tell_classes_and_hide_the_audit(trained: Session) -> None:
    finder, hidden = mapped(trained), audited(trained)
    found, labels = finder.map(), trained.labels()
    for key, color in zip(found.keys, finder.colors("answer").tolist(), strict=True):
        assert color == (COLORS.index(labels[key]) if key in labels and key not in hidden else NO_COLOR)  # type: ignore[arg-type]
    predictions = trained.predictions()
    expected = [int(predictions.best[predictions.places[key]]) for key in found.keys]
    assert finder.colors("prediction").tolist() == expected
    sure = np.array([predictions.confidence[predictions.places[key]] for key in found.keys])
    assert (
        np.diff(finder.colors("doubt")[np.argsort(sure)].astype(int)) <= 0
    ).all()  # the surest are the palest


def test_texts_are_found_by_meaning_with_the_help_of_the_background_process(texts: Session) -> None:
    with pytest.raises(ValueError, match="there is no map yet"):
        Finder(texts).find(Search(region=[(0, 0), (1, 0), (0, 1)], n=10))
    finder = mapped(texts)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(finder.find, Search(meaning="refund card payment", n=10))
        end = time.monotonic() + 30
        while not answer_lookups(texts):
            assert time.monotonic() < end
            time.sleep(0.05)
        matches = found.result(30).matches
    topics = texts.source.column("topic")
    assert sum(topics[each.question.name] == "billing" for each in matches) >= 9
    with pytest.raises(ValueError, match="busy"):
        look_up(texts, "nobody replies", seconds=0.2)


def test_remarks_are_found_by_kind_and_words_without_touching_the_audit(trained: Session) -> None:
    drawn = sorted(audited(trained))
    with trained.store.read_transaction() as tx:
        picked = tx.execute(select(examples.c.key).where(examples.c.purpose == "pick")).scalars().first()
    for key in (picked, drawn[0]):
        trained.remark(key, "note", "A stitched Panorama", "ada")
    finder, before = Finder(trained), audit_sample(trained)
    for search in (Search(words="panorama"), Search(remark="note")):
        assert [each.question.key for each in finder.find(search).matches] == [picked]
    assert finder.find(Search(remark="flag", n=60)).total == 0
    assert audit_sample(trained) == before


def say(name: str) -> str:
    return "red" if color_in(name) == "red" else "other"


@pytest.fixture
def rare(tmp_path: Path) -> Session:
    folder = colored_folder(tmp_path / "photos", 240)
    for place, path in enumerate(sorted(folder.glob("*-red.png"))):
        if place % 3:
            path.unlink()  # a rarer class
    return Session.open(
        folder, answers=["red", "other"], batch=20, encoder="pixels", find="red", audit=0.5, goal="90%"
    )


def test_a_search_finds_the_class_and_stops_by_a_bound_that_holds(rare: Session) -> None:
    rare.train()
    names = list(rare.source.places())
    total = sum(say(name) == "red" for name in names)
    answers = 0
    while not rare.advice().stop:
        labeled(rare, 10, say=say)
        answers += 10
        if is_round_due(rare):
            rare.train()
        found = stopping.recall(rare)
        assert found.low <= found.found / total + 1e-9  # at every look
        assert found.missed >= total - found.found
    assert found.reached
    assert found.found / total >= 0.9
    assert answers < len(names)
    assert rare.accuracy().goal is None


def test_picks_go_by_the_chance_of_the_class(rare: Session) -> None:
    rare.train()
    labeled(rare, 40, say=say)
    rare.train()
    labeled(rare, 20, say=say)
    snapshot, red = rare.snapshot(), rare.book.classes().number("red")
    late = sorted(snapshot.answers, key=lambda one: one.seq)[-20:]
    shares = {
        purpose: [snapshot.labels[one.key] == red for one in late if one.purpose == purpose]
        for purpose in ("pick", "audit")
    }
    assert sum(shares["pick"]) / len(shares["pick"]) > sum(shares["audit"]) / len(shares["audit"])
    assert set(purposes(rare).values()) == {"pick", "audit", None}


def test_a_class_that_there_is_not(tmp_path: Path) -> None:
    folder = colored_folder(tmp_path / "photos", 9)
    with pytest.raises(ValueError, match="must be one of red, green, blue; got 'mauve'"):
        Session.open(folder, answers=COLORS, find="mauve")
    assert not (tmp_path / "photos.labels").exists()
