"""Labels out and in again, in every format; nothing that a spreadsheet would reckon, no name that leaves its folder."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from labeling_data import COLORS, colored_folder, houses, tickets

from jostle.labeling import Answers, Session
from jostle.labeling.audit import audit_sample
from jostle.labeling.export import export, import_labels, keys_by_name, read_rows
from jostle.labeling.export.folders import safe_file_name
from jostle.labeling.sources.contents import SourceError
from jostle.utils.files import unhidden


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    return colored_folder(tmp_path / "colors", 30)


@pytest.fixture
def session(colors: Path) -> Session:
    made = Session.open(colors, answers=COLORS, batch=10, encoder="pixels")
    made.train()
    for question in made.ask(10):
        made.tell(question.key, question.name[4:-4], seconds=1.5)
    made.train()
    return made


def audited_session(colors: Path) -> Session:
    """Return a project in which about half of ten answers measure."""
    session = Session.open(colors, answers=COLORS, audit=0.5, encoder="pixels")
    session.train()
    for question in session.ask(10):
        session.tell(question.key, question.name[4:-4])
    return session


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_predictions_fill_the_rest_and_say_so(session: Session, tmp_path: Path) -> None:
    assert export(session, tmp_path / "labels.csv", predictions=True, with_audit=True) == 30
    guessed = [row for row in csv_rows(tmp_path / "labels.csv") if row["by"] == "model"]
    assert len(guessed) == 20
    assert all(0.3 < float(row["confidence"]) <= 1 for row in guessed)


@pytest.mark.parametrize("nasty", ["=1+1", "'=1"])
def test_no_cell_is_a_formula(tmp_path: Path, nasty: str) -> None:
    data = tmp_path / "t.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], [nasty, "one"], ["b", "two"]])
    session = Session.open(data, answers=["fine", f"{nasty.strip()} class"])
    for question in session.ask(2):
        session.tell(question.key, f"{nasty.strip()} class", nasty.strip() + " person")
    export(session, tmp_path / "labels.csv")
    rows = [list(row.values()) for row in csv_rows(tmp_path / "labels.csv")]
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@", "\t")]
    assert nasty in [unhidden(row[0]) for row in rows]


def test_json_says_who_said_what(session: Session, tmp_path: Path) -> None:
    key = next(iter(session.labels()))
    session.correct(key, "blue", "bob")
    export(session, tmp_path / "labels.json")
    held = json.loads((tmp_path / "labels.json").read_text())
    assert (held["kind"], held["classes"]) == ("one", list(COLORS))
    [example] = [each for each in held["examples"] if each["key"] == key]
    assert example["answer"] == "blue"
    told = [(said["person"], said["act"]) for said in example["said"]]
    assert told == [("you", "answer"), ("bob", "correction")]


def test_tasks_have_an_annotation_or_a_prediction(session: Session, tmp_path: Path) -> None:
    export(session, tmp_path / "for.labelstudio.json", predictions=True, with_audit=True)
    tasks = json.loads((tmp_path / "for.labelstudio.json").read_text())
    answered = [task for task in tasks if task.get("annotations")]
    assert (len(tasks), len(answered)) == (30, 10)
    assert answered[0]["data"]["jostle_key"] in session.labels()
    assert all(task["predictions"][0]["model_version"] == "round-2" for task in tasks if task not in answered)


def test_folders_by_class(session: Session, tmp_path: Path, colors: Path) -> None:
    picked = sum(one.purpose != "audit" for one in session.snapshot().answers)
    assert export(session, tmp_path / "sorted") == picked
    for link in (tmp_path / "sorted").glob("*/*.png"):
        assert link.is_symlink()
        assert link.parent.name == link.name[4:-4]
        assert link.read_bytes() == (colors / link.name).read_bytes()
    export(session, tmp_path / "copied", means="copy")
    assert not any(path.is_symlink() for path in (tmp_path / "copied").rglob("*"))
    with pytest.raises(FileExistsError, match="is not empty"):
        export(session, tmp_path / "copied")


@pytest.mark.parametrize("name", ["../up", "..", "/root", "a/b", ".hidden", "a\\b", "c:d", "end. ", "=1"])
def test_no_class_leaves_its_folder(name: str) -> None:
    clean = safe_file_name(name)
    assert not {"/", "\\", ":"} & set(clean)
    assert not clean.startswith(".")
    assert not clean.endswith((".", " "))


def of_another_kind(path: Path) -> None:
    """As somebody keeps notes under the same name."""
    path.write_text("my own notes\n")


def with_a_column(path: Path) -> None:
    """As somebody adds one in a spreadsheet."""
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([f"{head},mine", *(f"{row},precious" for row in rows)]), encoding="utf-8")


def with_a_field(path: Path) -> None:
    """As pyarrow adds a column, our mark of the file kept."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(path)
    assert table.column("people").to_pylist()[0] == ["you"]  # several words of a cell are a list
    parquet.write_table(table.append_column("mine", pyarrow.array(["precious"] * len(table))), path)


def without_our_mark(path: Path) -> None:
    """As another program writes the same columns."""
    from pyarrow import parquet

    parquet.write_table(parquet.read_table(path).replace_schema_metadata(), path)


def by_label_studio(path: Path) -> None:
    """As Label Studio writes tasks that came from here, with what people did to them there."""
    tasks = [{"id": place, **task} for place, task in enumerate(json.loads(path.read_text(encoding="utf-8")))]
    path.write_text(json.dumps(tasks), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("a.csv", of_another_kind),
        ("a.csv", with_a_column),
        ("a.parquet", with_a_field),
        ("a.parquet", without_our_mark),
        ("a.labelstudio.json", by_label_studio),
    ],
)
def test_an_export_that_somebody_worked_on_is_theirs(
    session: Session, tmp_path: Path, name: str, work: Callable[[Path], None]
) -> None:
    target = tmp_path / name
    export(session, target)
    export(session, target)  # as it is, it is ours
    work(target)
    theirs = target.read_bytes()
    with pytest.raises(FileExistsError, match="not of jostle's making"):
        export(session, target)
    assert target.read_bytes() == theirs
    export(session, target, overwrite=True)
    assert target.read_bytes() != theirs


def test_what_people_label_is_not_written_over_whatever_is_said(tmp_path: Path) -> None:
    table = tickets(tmp_path / "t.csv")
    before = table.read_bytes()
    session = Session.open(table, text="message", answers=["billing", "bug"], encoder="words")
    with pytest.raises(ValueError, match=r"t\.csv is what people label: name another file"):
        export(session, table, overwrite=True)
    assert table.read_bytes() == before


def test_imported_answers_train_and_measure_nothing(session: Session, colors: Path, tmp_path: Path) -> None:
    export(session, tmp_path / "labels.csv", predictions=True, with_audit=True)
    other = Session.open(colors, project=tmp_path / "other", answers=COLORS, encoder="pixels")
    found = import_labels(other, tmp_path / "labels.csv")
    assert (found.entered, found.unknown) == (10, ())
    assert other.labels() == session.labels()
    assert {entry.purpose for entry in other.answers().entries} == {"given"}
    other.train()
    assert other.predictions() is not None
    assert other.accuracy().audited == 0  # nobody knows how they were chosen


def test_labels_made_elsewhere(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.csv"
    path.write_text("File,Label\n001-green.png,green\nnowhere.png,red\n002-blue.png,\n003-red.png,pink\n")
    with pytest.raises(ValueError, match="classes that the project does not: pink"):
        import_labels(session, path)
    found = import_labels(session, path, add_classes=True)
    assert (found.entered, found.unknown, found.empty) == (2, ("nowhere.png",), 1)
    assert "pink" in session.classes()
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="expected one of key, name"):
        import_labels(session, path)
    nested = tmp_path / "nested.json"
    nested.write_text('[{"name": "004-green.png", "content": ["anything"], "answer": "green"}]')
    assert import_labels(session, nested).entered == 1


def test_what_was_labeled_elsewhere_measures_nothing(colors: Path, tmp_path: Path) -> None:
    """Who chose the file may have chosen what is easy; only an export of ours knows what was drawn at random."""
    session = audited_session(colors)
    before = audit_sample(session)
    export(session, tmp_path / "ours.csv", with_audit=True)
    import_labels(session, tmp_path / "ours.csv")
    assert audit_sample(session).labels.keys() == before.labels.keys()

    places = keys_by_name(session)
    unasked = [name for name in sorted(session.source.places()) if places[name] not in session.labels()][:5]
    measured = next(name for name in session.source.places() if places[name] in before.labels)
    chosen = [measured, *unasked]
    (tmp_path / "easy.csv").write_text("name,answer\n" + "".join(f"{n},{n[4:-4]}\n" for n in chosen))
    import_labels(session, tmp_path / "easy.csv")
    after = audit_sample(session)
    assert after.labels.keys() == before.labels.keys() - {places[measured]}
    assert len(after.keys) == len(before.keys) - len(chosen)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"labels": {"a": 1}}', "got {'labels'"),
        ('["a", "b"]', "got \\['a'"),
        ("3", "got 3"),
        ("[1,", "is no JSON that can be read"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"name": "000-red.png", "answer": {"deep": 1}}]', "expected a class or a number"),
        ("[]", "has columns none"),
    ],
)
def test_json_of_another_shape_says_what_is_expected(
    session: Session, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(SourceError, match=words):
        import_labels(session, tmp_path / "labels.json")


def test_numbers_are_imported_as_people_write_them(tmp_path: Path) -> None:
    session = Session.open(houses(tmp_path / "houses.csv", 20), answers=Answers("number"), hide=("price",))
    session.index.refresh()
    names = sorted(session.source.places())[:2]
    (tmp_path / "prices.csv").write_text(f'name,answer\n{names[0]},"1,250"\n{names[1]},12.5\n')
    import_labels(session, tmp_path / "prices.csv")
    assert sorted(session.labels().values()) == [12.5, 1250.0]  # type: ignore[type-var]
    (tmp_path / "prices.csv").write_text(f'name,answer\n{names[0]},"1,25"\n')
    with pytest.raises(ValueError, match=r"can mean 1\.25 or 125"):
        import_labels(session, tmp_path / "prices.csv")


def test_audit_answers_are_left_out_unless_asked_for(colors: Path, tmp_path: Path) -> None:
    """How each format marks those that are asked for is in test_formats."""
    session = audited_session(colors)
    audited = {one.name for one in session.snapshot().answers if one.purpose == "audit"}
    assert 0 < len(audited) < 10
    export(session, tmp_path / "without.csv")
    export(session, tmp_path / "with.csv", with_audit=True)
    without, both = (read_rows(session, tmp_path / f"{name}.csv") for name in ("without", "with"))
    assert not audited & {row["name"] for row in without}
    assert {row["name"] for row in both if row["purpose"] == "audit"} == audited
    assert len(both) == len(without) + len(audited) == 10
