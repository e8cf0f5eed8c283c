"""Near-copies: which examples are grouped, and what a group means for questions, training, the audit and exports."""

import csv
from pathlib import Path

import pytest
from labeling_data import COLORS, scene
from PIL import ImageEnhance

from jostle.labeling import Session
from jostle.labeling.audit import audit_sample
from jostle.labeling.export import export, import_labels
from jostle.labeling.find import Finder, Search
from jostle.labeling.sources import near_copies


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve scenes; of the first a JPEG, a crop, a brighter and a smaller copy."""
    made = tmp_path / "scenes"
    made.mkdir()
    for number in range(12):
        scene(number).save(made / f"{number:02}.png")
    first = scene(0)
    first.save(made / "00-encoded.jpg", quality=50)
    first.crop((4, 3, 92, 70)).save(made / "00-crop.png")
    ImageEnhance.Brightness(first).enhance(0.8).save(made / "00-dark.png")
    first.resize((64, 48)).save(made / "00-small.png")
    return made


def opened(folder: Path, **settings: object) -> Session:
    session = Session.open(folder, answers=COLORS, encoder="pixels", **{"near_copies": True, **settings})
    session.index.refresh()
    return session


def group(session: Session) -> tuple[str, list[str]]:
    """The key of the one representative, and those of its copies."""
    ((of, keys),) = session.copies.get().copies.items()
    return of, list(keys)


def answer_everything(session: Session) -> list[str]:
    """Answer until nothing is left; return the keys in order."""
    asked = []
    while found := session.ask(1):
        asked += [each.key for each in found]
        session.tell(found[0].key, COLORS[len(asked) % 3])
        if len(asked) % 4 == 0:
            session.train()
    return asked


def test_changed_pictures_join_their_original_and_no_other(folder: Path) -> None:
    session = opened(folder)
    of, keys = group(session)
    names = session.store.names([of, *keys]).values()
    assert {name[:2] for name in names} == {"00"}
    assert len(keys) == 4
    assert session.progress().examples == 12
    assert session.progress().copies == 4


def test_a_group_is_asked_once_trains_once_and_counts_once_in_the_audit(folder: Path) -> None:
    session = opened(folder, audit=0.5)
    _, keys = group(session)
    population = audit_sample(session)
    assert not set(population.rest) & set(keys)
    assert len(population.keys) == 12
    asked = answer_everything(session)
    assert len(asked) == len(set(asked)) == 12
    assert not set(asked) & set(keys)
    assert session.progress().left == 0
    assert session.store.rounds()[-1][2]["trained"] <= 12


def test_an_answer_given_to_a_copy_does_not_train_twice() -> None:
    groups = near_copies.Groups({"copy": "first"}, {"first": ["copy"]})
    assert groups.distinct({"first": 1, "copy": 1, "other": 2}) == {"first": 1, "other": 2}
    assert groups.distinct({"copy": 1}) == {"copy": 1}


def test_what_is_split_is_asked_next_and_never_measures(folder: Path) -> None:
    session = opened(folder)
    of, keys = group(session)
    first = session.ask(3)
    assert near_copies.split(session, keys[0], "you") == [keys[0]]
    assert keys[0] in [each.key for each in session.ask(3)]
    assert session.copies.get().copies[of] == keys[1:]
    assert set(near_copies.split(session, of, "you")) == set(keys[1:])
    assert not session.copies.get().representative
    sample = audit_sample(session)
    assert not set(keys) & set(sample.keys)
    session.index.refresh()
    assert not session.copies.get().representative  # what a person split stays split
    with pytest.raises(ValueError, match="no near-copies"):
        near_copies.split(session, first[0].key, "you")


def test_copies_whose_original_is_gone_without_an_answer_are_asked_by_another(folder: Path) -> None:
    session = opened(folder)
    of, keys = group(session)
    (folder / session.store.names([of])[of]).unlink()
    session.index.refresh()
    other, left = group(session)
    assert {other, *left} == set(keys)


def test_an_asked_example_never_becomes_a_copy(folder: Path) -> None:
    session = Session.open(folder, answers=COLORS, encoder="pixels", near_copies=True)
    asked = {each.key for each in session.ask(16)}  # before anything was read: all of them
    assert len(asked) == 16
    session.index.refresh()
    assert not session.copies.get().representative


def test_switched_off_nothing_is_grouped_and_groups_dissolve(folder: Path) -> None:
    opened(folder).close()
    session = opened(folder, near_copies=False)
    assert not session.copies.get().representative
    assert session.progress().examples == 16


def test_a_project_that_was_audited_before_stays_as_it_was(folder: Path) -> None:
    session = opened(folder, near_copies=False, audit=1.0)
    session.ask(3)
    session.close()
    session = opened(folder, near_copies=True)
    assert session.progress().examples == 16


def test_texts_that_differ_in_digits_are_one_and_short_ones_are_not(tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    texts = [
        "Your parcel 4711 arrives on Monday.",
        "your parcel 4712 arrives on monday",
        "3 stars",
        "5 stars",
    ]
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    session = opened(table, text="text")
    _, keys = group(session)
    assert len(keys) == 1
    assert session.progress().examples == 3


def test_a_search_shows_a_group_as_one_and_finds_it_by_the_name_of_a_copy(folder: Path) -> None:
    session = opened(folder)
    of, keys = group(session)
    finder = Finder(session)
    assert finder.find(Search(n=60)).total == 12
    assert [each.question.key for each in finder.find(Search(words="00-crop", n=60)).matches] == [of]
    assert [each.question.key for each in finder.find(Search(copies=True, n=60)).matches] == [of]
    assert finder.look(keys[0]).question.key == of


def test_exports_carry_the_answer_to_copies_and_mark_them(folder: Path, tmp_path: Path) -> None:
    session = opened(folder)
    of, keys = group(session)
    session.tell(of, "red")
    session.tell(next(each.key for each in session.ask(1)), "blue")
    assert export(session, tmp_path / "labels.csv") == 6
    with (tmp_path / "labels.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["answer"] == "red"]
    assert {row["key"]: row["by"] for row in rows} == {of: "people"} | dict.fromkeys(keys, "copy")
    other = opened(folder, project=tmp_path / "other")
    assert import_labels(other, tmp_path / "labels.csv").entered == 2
    assert other.copies.get() == session.copies.get()


def test_copies_of_an_audited_example_are_left_out_as_it_is(folder: Path, tmp_path: Path) -> None:
    session = opened(folder, audit=1.0)
    answer_everything(session)
    assert export(session, tmp_path / "labels.csv") == 0
    assert export(session, tmp_path / "labels.csv", with_audit=True) == 16


def test_many_copies_of_one_text_are_one_group_in_linear_time(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([f"request {i} of the user took long"] for i in range(500))])
    session = opened(table, text="text")
    assert session.progress().examples == 1
    assert session.progress().copies == 499
