"""Sources and their index: folders, tables and functions, as they are and as they change."""

import csv
import io
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from labeling_data import picture
from PIL import Image
from sqlalchemy import select

from jostle.labeling import Session
from jostle.labeling.sources import CallableSource, GoneError, ImageFolder, Index, contents, open_source
from jostle.labeling.sources.contents import (
    Content,
    SourceError,
    UnreadableError,
    check_picture,
    to_browser_format,
)
from jostle.labeling.sources.tables import Table
from jostle.labeling.store import Store
from jostle.labeling.store.schema import examples, places
from jostle.labeling.training.encoders import encode_rows, load_picture

ROWS = [
    {"id": "7", "message": "it does not start", "note": "x", "price": "10"},
    {"id": "8", "message": 'two lines\nand "quotes", too', "note": "", "price": ""},
    {"id": "9", "message": "Größe ≠ 中文", "note": "=1+1", "price": "-3.5"},
]


def written(path: Path, rows: list[dict[str, str]], mark: bytes = b"") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    path.write_bytes(mark + path.read_bytes())
    return path


def test_a_folder_lists_images_and_nothing_else(photos: Path) -> None:
    inner = photos / "inner"
    inner.mkdir()
    picture(99).save(inner / "deep.JPG", "JPEG")
    (photos / "notes.txt").write_text("no picture")
    (photos / ".hidden.png").write_bytes(b"")
    elsewhere = photos.parent / "elsewhere"
    elsewhere.mkdir()
    picture(50).save(elsewhere / "private.png")
    (photos / "link").symlink_to(elsewhere)  # links to folders are not followed
    project = photos / "photos.labels"
    project.mkdir()
    (project / "labels.db").write_bytes(b"")
    picture(98).save(project / "exported.png")
    places = ImageFolder(photos).places()
    assert list(places) == [*(f"{i:02}.png" for i in range(20)), "inner/deep.JPG"]
    assert ImageFolder(photos).read("inner/deep.JPG").data == (inner / "deep.JPG").read_bytes()


@pytest.mark.parametrize(
    "name", ["../secret.png", "inner/../../secret.png", "nowhere.png", "notes.txt", "/etc/passwd"]
)
def test_a_folder_reads_nothing_that_it_did_not_list(photos: Path, name: str) -> None:
    picture(1).save(photos.parent / "secret.png")
    (photos / "notes.txt").write_text("no picture")
    with pytest.raises(KeyError):
        ImageFolder(photos).read(name)


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("nothing.csv", None, "does not exist"),
        ("a.txt", None, "not a csv or Parquet"),
        (".", "message", "has no columns"),
        (".", None, r"holds no images, nor do the folders in it: name a folder of pictures .*\.png"),
    ],
)
def test_what_cannot_be_labeled_begins_no_project(
    tmp_path: Path, place: str, text: str | None, message: str
) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(SourceError, match=message):
        Session.open(tmp_path / place, answers=["good", "bad"], text=text)
    assert {path.name for path in (*tmp_path.iterdir(), *tmp_path.parent.glob("*.labels"))} == {"a.txt"}


def test_a_csv_is_read_row_by_row(tmp_path: Path) -> None:
    table = open_source(written(tmp_path / "t.csv", ROWS, b"\xef\xbb\xbf"), text="message")
    assert list(table.places()) == ["7", "8", "9"]
    assert [table.read(name).texts[0] for name in table.places()] == [row["message"] for row in ROWS]
    assert table.column("price") == {"7": "10", "8": "", "9": "-3.5"}
    assert [content.key for content in table.contents()] == list(table.places().values())


def test_a_row_keeps_its_key_when_the_table_grows_and_is_sorted_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = open_source(written(path, ROWS), text="message")
    before = table.places()
    written(path, [{"id": "1", "message": "new", "note": "", "price": ""}, *reversed(ROWS)])
    after = table.places()
    assert {name: after[name] for name in before} == before
    assert table.read("9").texts == (ROWS[2]["message"],)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a line of distinct column names"),
        (b"a,a\n1,2\n", "expected a line of distinct column names"),
        (b"a,b\n1\n", "line 2: 1 cells where the header has 2"),
        (b"a,b\n", "has no rows"),
        (b"a\n\xff\xfe\n", "expected a csv in UTF-8"),
    ],
)
def test_broken_tables_say_where(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Table(path, (), ()).places()


def test_texts_that_nobody_named_are_not_one_hot(tmp_path: Path) -> None:
    rows = [{"review": f"the {i} was not so bad", "stars": str(i)} for i in range(5)]
    alone = written(tmp_path / "alone.csv", [{"id": row["stars"], "review": row["review"]} for row in rows])
    with pytest.raises(SourceError, match="the column review holds texts: pass --text review to label them"):
        open_source(alone)
    assert open_source(alone, text="review").kind == "text"
    beside = open_source(written(tmp_path / "beside.csv", rows))
    assert isinstance(beside, Table)
    assert "review holds texts, which rows are not learned from: pass --text review" in beside.note
    assert encode_rows([content.fields or {} for content in beside.contents()]).shape == (5, 1)  # stars alone


OWN = """
import numpy as np
from PIL import Image
from pathlib import Path

def texts(): return ["one", "two", "one"], [0, 1, 0]
def pairs(): return [("a", "b"), ("c", "d")]
def rows(): return [{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}]
def gray(): return np.arange(2 * 6 * 5).reshape(2, 6, 5).astype("uint8")
def color(): return np.linspace(0, 1, 2 * 3 * 6 * 5).reshape(2, 3, 6, 5)
def images(): return [Image.new("RGB", (4, 4), (i, 0, 0)) for i in range(3)]
def vectors(): return np.eye(3)
def nothing(): return 5
def objects(): return [object()]
"""


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [("texts", "text", 3), ("pairs", "text", 2), ("rows", "row", 2), ("gray", "image", 2), ("color", "image", 2),
     ("images", "image", 3), ("vectors", "row", 3)],
)  # fmt: skip
def test_a_function_of_your_own(tmp_path: Path, name: str, kind: str, count: int) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    source = open_source(f"{file}:{name}")
    assert (source.kind, len(source.places())) == (kind, count)
    contents = list(source.contents())
    assert len({content.key for content in contents}) == (2 if name == "texts" else count)
    if kind == "image":
        assert to_browser_format(contents[0]).mime == "image/png"
    if name == "texts":
        assert source.column("target") == {"0": 0, "1": 1, "2": 0}


@pytest.mark.parametrize("name", ["nothing", "objects"])
def test_what_a_function_may_not_return(tmp_path: Path, name: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    with pytest.raises(SourceError, match="expected a list of texts"):
        CallableSource(f"{file}:{name}")


def test_a_key_is_the_content_and_nothing_else() -> None:
    assert Content("text", "a", texts=("x",)).key == Content("text", "b", texts=("x",)).key
    assert Content("text", "a", texts=("x", "y")).key != Content("text", "a", texts=("xy",)).key
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert Content("row", "a", fields=one).key == Content("row", "b", fields=two).key
    assert len(Content("image", "a", b"x").key) == 32


def test_pictures_that_browsers_do_not_know_become_png(tmp_path: Path) -> None:
    for name, mime in {"a.jpg": "jpeg", "b.tif": "png", "c.ppm": "png", "d.webp": "webp"}.items():
        picture(1).save(tmp_path / name)
        assert to_browser_format(ImageFolder(tmp_path).read(name)).mime == f"image/{mime}"


def test_a_picture_that_breaks_off_is_found(tmp_path: Path) -> None:
    picture(1, side=64).save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    check_picture(Content("image", "a.jpg", whole))
    with pytest.raises(UnreadableError, match=r"a\.jpg is not an image"):
        check_picture(Content("image", "a.jpg", whole[: len(whole) // 2]))
    with pytest.raises(UnreadableError, match="its content has no format that is known"):
        to_browser_format(Content("image", "script.png", b"<svg onload=alert(1)>"))


def test_a_picture_with_too_many_pixels_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_PIXELS", 63)
    shown = Content("image", "large.tif", png(picture(1, side=8), "TIFF"))
    for call in (check_picture, to_browser_format, contents.make_thumbnail, partial(load_picture, side=4)):
        with pytest.raises(UnreadableError, match="8 x 8 pixels are more than 63"):
            call(shown)


def png(image: Image.Image, format: str = "PNG") -> bytes:
    held = io.BytesIO()
    image.save(held, format)
    return held.getvalue()


def test_a_new_project_asks_what_a_column_of_texts_is(tmp_path: Path) -> None:
    rows = [{"review": f"the {i} was not so bad", "stars": str(i % 3)} for i in range(30)]
    path = written(tmp_path / "reviews.csv", rows)
    with pytest.raises(SourceError, match="--text review to label them, --hide review to leave them out"):
        Session.open(path, answers=["good", "bad"])
    assert not (tmp_path / "reviews.labels").exists()
    for text, hide, kind in (("review", (), "text"), (None, ("review",), "row"), ("none", (), "row")):
        place = tmp_path / f"{text} {len(hide)}"
        Session.open(path, project=place, answers=["good", "bad"], text=text, hide=hide).close()
        again = Session.open(project=place)
        assert again.source.kind == kind
        again.close()


def test_empty_texts_are_not_asked_and_are_named(tmp_path: Path) -> None:
    rows = [{"id": str(i), "text": "" if i % 2 else f"text number {i}"} for i in range(8)]
    session = Session.open(written(tmp_path / "texts.csv", rows), answers=["good", "bad"])
    session.index.refresh()
    assert {question.name for question in session.ask(9)} == {"0", "2", "4", "6"}
    told = session.progress()
    assert told.examples == 4
    assert told.unreadable == dict.fromkeys("1357", "its text is empty")
    with pytest.raises(SourceError, match="the column text is empty in every row"):
        open_source(written(tmp_path / "empty.csv", [{"text": " "}, {"text": ""}])).places()


def test_large_pictures_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LARGE_PIXELS", 0)
    inside: list[int] = []
    most = []

    def slow(image: Image.Image) -> Image.Image:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return image

    monkeypatch.setattr(contents, "to_eight_bits", slow)
    shown = Content("image", "large.tif", png(picture(1, side=8), "TIFF"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(to_browser_format, [shown] * 16))
    assert max(most) == 1


def test_names_that_are_not_utf8_can_be_written_and_read_back(photos: Path) -> None:
    place = os.fsencode(photos) + b"/caf\xe9"
    os.mkdir(place)
    picture(97).save(os.fsdecode(place + b"/\xff.png"))
    picture(96).save(photos / "\\xe9.png")  # letters of a name, and no byte
    names = [name for name in ImageFolder(photos).places() if "\\x" in name]
    assert names == ["\\xe9.png", "caf\\xe9/\\xff.png"]
    assert [ImageFolder(photos).read(name).name for name in names] == names
    assert ImageFolder(photos).file(names[1]).samefile(os.fsdecode(place + b"/\xff.png"))
    session = Session.open(photos, answers=["yes", "no"])
    assert {question.name for question in session.ask(22)} >= set(names)
    session.close()


def test_a_parquet_file_gives_the_same_texts(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra `label`")
    from pyarrow import parquet

    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    columns |= {"size": [1.5, float("nan"), 2.0], "when": [date(2026, 1, 1)] * 3}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    texts = open_source(tmp_path / "t.parquet", text="message")
    assert isinstance(texts, Table)
    assert texts.places() == open_source(written(tmp_path / "t.csv", ROWS), text="message").places()
    rows = open_source(tmp_path / "t.parquet")
    assert rows.read("8").fields == {
        "message": ROWS[1]["message"], "note": "", "price": "", "size": None, "when": "2026-01-01",
    }  # fmt: skip


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
