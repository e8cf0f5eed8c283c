"""Every format takes labels out and brings them in again: classes, several classes, numbers, audit marks, remarks."""

import csv
import json
from pathlib import Path

import pytest
from labeling_data import colored_folder, houses, tickets

from jostle.labeling import Answers, Session
from jostle.labeling.audit import audit_sample
from jostle.labeling.export import FORMATS, export, export_rows, import_column, import_labels, read_rows
from jostle.labeling.sources import open_source
from jostle.labeling.sources.contents import SourceError
from jostle.labeling.store.edits import current_remarks

parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra `label`")

CLASSES = ("red; or so", "=green", "blue/azure")  # which separators, formulas and folders must not change
TARGETS = {
    "csv": "a.csv",
    "parquet": "a.parquet",
    "json": "a.json",
    "labelstudio": "a.labelstudio.json",
    "coco": "a.coco.json",
    "huggingface": "a.parquet",
    "huggingface folder": "saved",
    "imagefolder": "images",
    "fiftyone": "fifty",
    "folders": "sorted",
}
HOLD_REMARKS = [name for name in TARGETS if name != "folders"]


def open_colors(folder: Path, project: Path, kind: str) -> Session:
    answers = Answers("number") if kind == "number" else Answers(kind, CLASSES)  # type: ignore[arg-type]
    return Session.open(folder, project=project, answers=answers, audit=0.5, encoder="pixels")


def answer(session: Session, count: int) -> None:
    """Answer some questions, and remark on the first two."""
    for place, question in enumerate(session.ask(count)):
        several = CLASSES[: place % 4]
        answers = {"one": CLASSES[place % 3], "several": several, "number": place / 4}
        session.tell(question.key, answers[session.kind])
    answered = sorted(session.labels())
    session.remark(answered[0], "note", "blurry; bob: no", "ann")
    session.remark(answered[0], "flag", "", "bob")
    session.remark(answered[1], "note", "twice", "you")


def said(session: Session) -> set[tuple[str, str, str, str]]:
    return {(each.key, each.person, each.kind, each.text) for each in current_remarks(session.store)}


@pytest.fixture(scope="module", params=["one", "several", "number"])
def labeled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A project with answers of every kind, some of them of the audit."""
    folder = tmp_path_factory.mktemp(request.param)
    session = open_colors(colored_folder(folder / "colors", 24), folder / "a", request.param)
    session.train()
    answer(session, 10)
    return session


@pytest.mark.parametrize("name", TARGETS)
def test_every_format_brings_labels_back(labeled: Session, tmp_path: Path, name: str) -> None:
    session, kind, format = labeled, labeled.kind, name.split()[0]
    colors, target = session.project.parent / "colors", tmp_path / TARGETS[name]
    if kind == "number" and not FORMATS[format].numbers:
        with pytest.raises(ValueError, match="is for pictures with classes; this project has images with"):
            export(session, target, format=format)
        return
    export(session, target, format=format, with_audit=True)

    audited = {row["key"] for row in export_rows(session, False, True) if row["purpose"] == "audit"}
    labels = session.labels()
    if name == "folders":
        labels = {key: said for key, said in labels.items() if said}  # no folder holds what has no class
    marked = sum(row.get("purpose") == "audit" for row in read_rows(session, target))
    assert 0 < marked == len(audited & labels.keys())

    before = audit_sample(session).labels.keys()
    import_labels(session, target)
    assert audit_sample(session).labels.keys() == before  # the marks keep them measuring

    other = open_colors(colors, tmp_path / "b", kind)
    assert import_labels(other, target).entered == len(labels)
    assert other.labels() == labels
    assert said(other) == (said(session) if name in HOLD_REMARKS else set())
    assert import_labels(other, target).entered == 0
    assert said(other) == (said(session) if name in HOLD_REMARKS else set())


@pytest.mark.parametrize("kind", ["one", "several", "number"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_added_to_the_users_own_table(tmp_path: Path, suffix: str, kind: str) -> None:
    data = tickets(tmp_path / "t.csv", 20)
    if suffix == "parquet":
        import pyarrow.csv

        parquet.write_table(pyarrow.csv.read_csv(data), tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    else:  # as a spreadsheet writes it: a mark in front, quotes where none are needed
        data.write_bytes(b"\xef\xbb\xbf" + data.read_bytes().replace(b"t3,", b'"t3",'))

    def opened(project: str) -> Session:
        answers = Answers("number") if kind == "number" else Answers(kind, CLASSES)  # type: ignore[arg-type]
        return Session.open(
            data, project=tmp_path / project, text="message", answers=answers, encoder="words"
        )

    session = opened("a")
    answer(session, 5)
    target = tmp_path / f"out.{suffix}"
    export(session, target, format="table", with_audit=True)
    export(session, target, format="table", with_audit=True)  # it is jostle's own
    if suffix == "csv":
        old, new = data.read_bytes().splitlines(), target.read_bytes().splitlines()
        assert [line[: len(before)] for before, line in zip(old, new, strict=True)] == old
        with target.open(newline="", encoding="utf-8-sig") as file:
            assert sum(bool(row["jostle_key"]) for row in csv.DictReader(file)) == 5
    else:
        old, new = parquet.read_table(data), parquet.read_table(target)
        assert new.select(old.column_names).equals(old)
    other = opened("b")
    assert import_labels(other, target).entered == 5
    assert (other.labels(), said(other)) == (session.labels(), said(session))
    with pytest.raises(ValueError, match=f"is written as .{suffix}"):
        export(session, tmp_path / {"csv": "x.parquet", "parquet": "x.csv"}[suffix], format="table")


def test_a_table_of_others_is_matched_by_what_its_rows_show(tmp_path: Path) -> None:
    data = tickets(tmp_path / "t.csv", 20)
    session = Session.open(data, text="message", hide=["topic"], answers=["billing", "bug", "praise"])
    rows = list(csv.DictReader(data.open(newline="")))
    with (tmp_path / "theirs.csv").open("w", newline="") as file:
        shown = [[row["message"], row["topic"]] for row in rows[:7]]
        csv.writer(file).writerows([["message", "label"], *shown])
    assert import_labels(session, tmp_path / "theirs.csv").entered == 7
    topics = {row["id"]: row["topic"] for row in rows}
    assert all(answer == topics[session.question(key).name] for key, answer in session.labels().items())


@pytest.mark.parametrize("target", ["a.parquet", "saved"])
def test_a_data_set_of_hugging_face_is_labeled_like_a_folder(tmp_path: Path, target: str) -> None:
    session = open_colors(colored_folder(tmp_path / "colors", 12), tmp_path / "a", "one")
    answer(session, 12)
    export(session, tmp_path / target, format="huggingface", with_audit=True)
    again = Session.open(tmp_path / target, project=tmp_path / "b", answers=CLASSES, encoder="pixels")
    again.index.refresh()
    for key in session.labels():
        assert again.question(key).name == session.question(key).name
    assert import_column(again, "label") == 12
    assert again.labels() == session.labels()


def test_texts_and_rows_of_a_saved_data_set_are_labeled_too(tmp_path: Path) -> None:
    for data, answers, text in (
        (tickets(tmp_path / "t.csv", 8), Answers("one", CLASSES), "message"),
        (houses(tmp_path / "h.csv", 8), Answers("number"), None),
    ):
        session = Session.open(data, answers=answers, text=text, encoder="words")
        for place, question in enumerate(session.ask(8)):
            session.tell(question.key, 1.5 if answers.kind == "number" else CLASSES[place % 3])
        saved = tmp_path / f"{data.stem}-saved"
        export(session, saved, format="huggingface", with_audit=True)
        shown = list(open_source(saved, text=text).contents())
        assert len(shown) == 8
        other = Session.open(data, project=tmp_path / f"{data.stem}-b", answers=answers, text=text)
        import_labels(other, saved)
        assert other.labels() == session.labels()


def test_hugging_faces_own_package_reads_what_is_written(tmp_path: Path) -> None:
    pytest.importorskip("datasets.arrow_dataset", reason="needs the extra `integrations`")
    import datasets

    session = open_colors(colored_folder(tmp_path / "colors", 12), tmp_path / "a", "several")
    answer(session, 12)
    rows = {row["name"]: row for row in export_rows(session, False, True)}
    for target in ("a.parquet", "saved"):
        export(session, tmp_path / target, format="huggingface", with_audit=True)
    export(session, tmp_path / "images", format="imagefolder", with_audit=True, means="copy")
    opened = [
        datasets.load_dataset("parquet", data_files=str(tmp_path / "a.parquet"), split="train"),
        datasets.load_from_disk(str(tmp_path / "saved")),
    ]
    for each in opened:
        names = each.features["label"].feature
        assert {row["jostle_name"]: tuple(names.int2str(row["label"])) for row in each} == {
            name: row["answer"] for name, row in rows.items()
        }
        assert each[0]["image"].size == (16, 16)
        each.save_to_disk(str(tmp_path / "theirs"))
        assert len(read_rows(session, tmp_path / "theirs")) == 12
    images = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "images"), split="train")
    assert {row["name"] for row in images} == rows.keys()
    splits = datasets.DatasetDict(train=opened[1], test=opened[1])
    splits.save_to_disk(str(tmp_path / "splits"))
    with pytest.raises(ValueError, match="holds 2 data sets: name one of test, train"):
        open_source(tmp_path / "splits")


def test_label_studio_and_coco_files_of_others_are_read(tmp_path: Path) -> None:
    session = open_colors(colored_folder(tmp_path / "colors", 6), tmp_path / "a", "one")
    said = [("2", CLASSES[1]), ("1", CLASSES[0])]
    annotations = [{"updated_at": at, "result": [{"value": {"choices": [name]}}]} for at, name in said]
    names = ["000-red.png", "001-green.png"]
    tasks = [
        {"data": {"image": f"/data/local-files/?d={name}"}, "annotations": annotations} for name in names
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    assert import_labels(session, tmp_path / "tasks.json").entered == 2
    assert set(session.labels().values()) == {CLASSES[1]}
    coco = {
        "images": [{"id": 7, "file_name": "002-blue.png"}, {"id": 8, "file_name": "003-red.png"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [0, 0, 1, 1]}],
        "categories": [{"id": 3, "name": CLASSES[2]}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    found = import_labels(session, tmp_path / "coco.json")
    assert (found.entered, found.unknown) == (1, ())
    coco["annotations"] = [{"image_id": 7, "category_id": 4}]
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    with pytest.raises(SourceError, match="expected COCO's images"):
        import_labels(session, tmp_path / "coco.json")


def test_a_format_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    session = open_colors(colored_folder(tmp_path / "colors", 6), tmp_path / "a", "one")
    for name, format, words in (
        ("a.json", "cocoo", "coco"),
        ("a.json", "fiftyone", r"the format fiftyone is written to a folder, without an ending; got a\.json"),
        ("a.txt", None, "cannot tell the format"),
    ):
        with pytest.raises(ValueError, match=words):
            export(session, tmp_path / name, format=format)
    with pytest.raises(SourceError, match="does not exist"):
        import_labels(session, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no pictures in folders of classes"):
        import_labels(session, tmp_path / "empty")
