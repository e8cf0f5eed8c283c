"""Data that changes between rounds: files that vanish, change and come, copies, and what cannot be read."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from labeling_data import picture
from sqlalchemy import select

from jostle.labeling.sources import GoneError, ImageFolder, Index
from jostle.labeling.store import Store
from jostle.labeling.store.schema import examples, places


@pytest.fixture
def index(photos: Path, tmp_path: Path) -> Iterator[Index]:
    store = Store(str(tmp_path / "labels.db"))
    yield Index(store, ImageFolder(photos), seed=0, overlap=0.0)
    store.close()


def here(index: Index) -> dict[str, bool]:
    return {row.key: row.here for row in index.store.rows(select(examples))}


def key_of(index: Index, name: str) -> str:
    return str(index.store.value(select(places.c.key).where(places.c.name == name)))


def test_two_copies_are_one_example(index: Index, photos: Path) -> None:
    shutil.copy(photos / "00.png", photos / "copy.png")
    index.refresh()
    assert len(here(index)) == 20
    assert key_of(index, "00.png") == key_of(index, "copy.png")
    (photos / "00.png").unlink()
    index.refresh()
    assert all(here(index).values())
    assert index.content(key_of(index, "copy.png")).name == "copy.png"


def test_what_vanishes_is_not_here_and_comes_back(index: Index, photos: Path) -> None:
    index.refresh()
    key, data = key_of(index, "03.png"), (photos / "03.png").read_bytes()
    (photos / "03.png").unlink()
    index.refresh()
    assert here(index)[key] is False
    with pytest.raises(GoneError, match=key):
        index.content(key)
    (photos / "renamed.png").write_bytes(data)
    index.refresh()
    assert here(index)[key] is True
    assert index.content(key).name == "renamed.png"


def test_a_file_that_changes_is_a_new_example(index: Index, photos: Path) -> None:
    index.refresh()
    old = key_of(index, "05.png")
    picture(500).save(photos / "05.png")
    with pytest.raises(GoneError):  # even before the next look: never the wrong picture
        index.content(old)
    index.refresh()
    new = key_of(index, "05.png")
    assert new != old
    assert (here(index)[old], here(index)[new]) == (False, True)


def test_what_comes_is_found_and_what_stays_is_not_read_again(
    index: Index, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.refresh()
    read: list[str] = []
    real = ImageFolder.read
    monkeypatch.setattr(ImageFolder, "read", lambda self, name: (read.append(name), real(self, name))[1])
    picture(77).save(photos / "new.png")
    os.utime(photos / "01.png", ns=(1, 1))
    index.refresh()
    assert sorted(read) == ["01.png", "new.png"]
    assert sum(here(index).values()) == 21


def test_the_first_questions_are_drawn_before_everything_is_read(
    index: Index, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "broken.png").write_bytes(b"no picture")
    shutil.copy(photos / "00.png", photos / "copy.png")
    first = index.read_random(4)
    assert len(set(first)) == 4
    assert len(index.store.rows(select(places))) <= 6
    rest = index.read_random(100)
    assert len({*first, *rest}) == 20  # the copy is no question of its own, and what is broken is none
    problem = index.store.value(select(places.c.problem).where(places.c.name == "broken.png"))
    assert "not an image that can be read" in problem
    key = key_of(index, "02.png")
    index.mark_unreadable(key, "broken")
    assert here(index)[key] is False
