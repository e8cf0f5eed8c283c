"""Labels out: csv, Parquet, JSON, Label Studio's JSON, or folders by class.

What is written for an example is the answer that counts (see `agreement`). With `predictions` the last model fills in
the rest, marked as such. JSON also holds what each person said.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from sqlalchemy import select

from jostle.labelling.answers import Answer, current_answer
from jostle.labelling.contents import Content, digest
from jostle.labelling.index import GoneError
from jostle.labelling.review import suggested
from jostle.labelling.schema import examples
from jostle.labelling.tables import parquet
from jostle.labelling.verdicts import Given
from jostle.plumbing.files import check_target, is_same, replacing, write_whole
from jostle.plumbing.sheets import has_columns, sheet

if TYPE_CHECKING:
    from jostle.labelling.session import Session

LONGEST_FILE = 200  # letters; systems take 255
COLUMNS = ("name", "answer", "by", "confidence", "people", "purpose", "key")
FORMAT = "jostle-labels"
LABEL_STUDIO = "labelstudio.json"  # how the name of a file for Label Studio ends
BETWEEN = "; "  # classes of one example in one cell

Row = dict[str, Any]
Means = Literal["link", "copy"]


def export(session: Session, path: Path, *, predictions: bool = False, overwrite: bool = False) -> int:
    """Write all labels to a file, in the format that its name ends with; how many examples it holds."""
    writers = {".csv": write_csv, ".parquet": write_parquet, ".json": write_json}
    write = write_label_studio if path.name.endswith(LABEL_STUDIO) else writers.get(path.suffix.lower())
    if write is None:
        endings = ", ".join([*writers, LABEL_STUDIO])
        raise ValueError(
            f"cannot tell the format of {path.name}: end its name with {endings}, or export folders"
        )
    check_target(path, partial(is_ours, path), overwrite)
    table = getattr(session.source, "path", None)
    if table is not None and is_same(path, table):
        raise ValueError(f"{path} is what people label: name another file")
    found = list(export_rows(session, predictions))
    write(session, path, found)
    return len(found)


def export_rows(session: Session, predictions: bool) -> Iterator[Row]:
    """A row for each answered example in the order of names, then one for each predicted one."""
    classes, snapshot = session.book.classes(), session.snapshot()
    people: dict[str, list[str]] = {}
    first: dict[str, Given] = {}
    for one in snapshot.given:
        first.setdefault(one.key, one)
        if one.act != "skip" and one.person not in people.setdefault(one.key, []):
            people[one.key].append(one.person)
    for key in sorted(snapshot.labels, key=lambda key: (first[key].name, key)):
        answer = current_answer(session.kind, snapshot.labels[key], classes)
        yield row(first[key].name, answer, "people", None, people[key], first[key].purpose, key)
    found = session.predictions() if predictions else None
    if found is None:
        return
    with session.store.reading() as tx:
        here = tx.execute(
            select(examples.c.key, examples.c.name).where(examples.c.here).order_by(examples.c.name)
        ).all()
    for key, name in here:
        if key in found.places and key not in snapshot.labels:
            guess = suggested(session, found, key, classes)
            yield row(name, guess.answer, "model", guess.confidence, [], None, key)


def row(
    name: str,
    answer: Answer,
    by: str,
    sure: float | None,
    people: Sequence[str],
    purpose: str | None,
    key: str,
) -> Row:
    """One example."""
    return dict(zip(COLUMNS, (name, answer, by, sure, list(people), purpose, key), strict=True))


def flat_row(found: Row) -> Row:
    """A row whose cells are words and numbers."""
    answer = found["answer"]
    words = BETWEEN.join(answer) if isinstance(answer, tuple) else answer
    return {**found, "answer": words, "people": BETWEEN.join(found["people"])}


def write_csv(session: Session, path: Path, found: Sequence[Row]) -> None:
    """A sheet in which no name, class or person becomes a formula."""
    lines = [["" if cell is None else cell for cell in flat_row(each).values()] for each in found]
    write_whole(path, sheet([COLUMNS, *lines]))


def write_parquet(session: Session, path: Path, found: Sequence[Row]) -> None:
    """A table with the same columns; several classes and people are lists."""
    writer = parquet()
    import pyarrow

    words = pyarrow.string()
    answer = {"number": pyarrow.float64(), "one": words, "several": pyarrow.list_(words)}[session.kind]
    kinds = (words, answer, words, pyarrow.float64(), pyarrow.list_(words), words, words)
    shape = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)), metadata={"format": FORMAT})
    plain = [
        {**each, "answer": list(each["answer"])} if session.kind == "several" else each for each in found
    ]
    with replacing(path) as file:
        writer.write_table(pyarrow.Table.from_pylist(plain, schema=shape), file)


def write_json(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Everything, with what each person said of each example."""
    classes = session.book.classes()
    everybody: dict[str, list[Row]] = {}
    for one in session.snapshot().given:
        words = None if one.value is None else current_answer(session.kind, one.value, classes)
        told = {"person": one.person, "act": one.act, "answer": words, "seconds": one.seconds, "at": one.at}
        everybody.setdefault(one.key, []).append(told)
    held = [{**each, "said": everybody.get(each["key"], [])} for each in found]
    head = {"format": FORMAT, "version": 1, "kind": session.kind, "classes": session.classes()}
    write_whole(path, json.dumps({**head, "examples": held}, ensure_ascii=False, indent=1) + "\n")


def write_label_studio(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Tasks with an annotation each, as Label Studio imports them; predicted examples are tasks with a prediction."""
    from jostle.labelling.labelstudio.formats import Tags, prediction, task, task_result

    kind = session.source.kind
    tags = Tags(object=kind, field=kind, kind=session.kind)
    version = f"round-{session.store.last_model()}"
    tasks = []
    for order, (each, content) in enumerate(with_contents(session, found)):
        guessed = each["by"] == "model"
        guess = prediction(each["answer"], each["confidence"], version, tags) if guessed else None
        made = task(content, each["key"], order, tags, guess)
        if not guessed:
            made["annotations"] = [{"result": [task_result(each["answer"], tags)], "was_cancelled": False}]
        tasks.append(made)
    write_whole(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")


def with_contents(session: Session, found: Iterable[Row]) -> Iterator[tuple[Row, Content]]:
    """Rows with what they show; those whose content is gone are passed over."""
    for each in found:
        with suppress(GoneError):
            yield each, session.index.content(each["key"])


def is_ours(path: Path, head: bytes) -> bool:
    """Whether a file began as one of these exports: only such a one is written over without being told.

    A column more is somebody's work, and so is what Label Studio wrote of tasks that came from here.
    """
    if head.startswith(b"PAR1"):
        shape = parquet().read_schema(path)
        return (shape.metadata or {}).get(b"format") == FORMAT.encode() and tuple(shape.names) == COLUMNS
    tasks = head.startswith(b'[\n {\n  "data": {') and b'"jostle_key"' in head
    return tasks or has_columns(head, COLUMNS) or head.startswith(f'{{\n "format": "{FORMAT}"'.encode())


def export_folders(session: Session, folder: Path, means: Means = "link") -> int:
    """A folder for each class with its pictures, as links to the originals or as copies; how many there are.

    The folder must be new or empty. A picture with several classes is in each of their folders.
    """
    if session.source.kind != "image" or session.kind == "number":
        raise ValueError("folders by class are for pictures with classes: export a .csv, .parquet or .json")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: name a new folder")
    count = 0
    for each, content in with_contents(session, export_rows(session, predictions=False)):
        named = [each["answer"]] if session.kind == "one" else each["answer"]
        for name in named:
            target = folder / safe(name) / safe(PurePath(content.name).as_posix().replace("/", "__"))
            target.parent.mkdir(parents=True, exist_ok=True)
            _place(session.source, content.name, content.data, target, means)
            count += 1
    return count


def _place(source: Any, name: str, data: bytes, target: Path, means: Means) -> None:
    file_of = getattr(source, "file", None)
    if file_of is None:
        target.with_suffix(target.suffix or ".png").write_bytes(data)  # pictures that are in no file
    elif means == "link":
        target.symlink_to(file_of(name))
    else:
        shutil.copyfile(file_of(name), target)


def safe(name: str) -> str:
    """A name that is one folder or file on every system, whatever it was; a long one ends with a sum of it all."""
    clean = quote(name, safe=" ()[]{},;=+@!#$&'~^").rstrip(" .")
    if len(clean) > LONGEST_FILE:
        clean = f"{clean[: LONGEST_FILE // 2]}-{digest(name.encode())}{PurePath(clean).suffix[-8:]}"
    return f"%2E{clean[1:]}" if clean.startswith(".") else clean or "%20"
