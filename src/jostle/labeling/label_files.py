"""Labels as files: export to csv, Parquet, JSON, Label Studio's JSON or folders by class; import from three of these.

An export holds the answer that counts for each example. With `predictions` the last model fills in the rest, marked as
such. JSON also holds every person's answer. Imported labels are answers of a person named `import`: they train and
never count as audit, unless the file is an export that marks them. Importing a file twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from jostle.datasets.table_encoding import is_missing
from jostle.datasets.table_files import CsvFile, import_parquet
from jostle.labeling.aggregation import CurrentAnswer
from jostle.labeling.answers import Answer, clean_class_name, decode_answer, encode_answer
from jostle.labeling.contents import Cell, Content, SourceError, digest
from jostle.labeling.index import GoneError
from jostle.labeling.remarks import current_remarks, remark_cells, remarks_by_key
from jostle.labeling.review import make_suggestion
from jostle.labeling.schema import examples, places
from jostle.utils.files import check_target, has_columns, is_same, replacing, sheet, unhidden, write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session

OLD_COLUMNS = ("name", "answer", "by", "confidence", "people", "purpose", "key")  # of version 0.2
COLUMNS = (*OLD_COLUMNS, "unsure", "flagged", "notes")
FORMAT = "jostle-labels"
LABEL_STUDIO = "labelstudio.json"  # how the name of a file for Label Studio ends
SEPARATOR = "; "  # classes of one example in one cell

Row = dict[str, Any]


def export(
    session: Session,
    path: Path,
    *,
    predictions: bool = False,
    with_audit: bool = False,
    overwrite: bool = False,
) -> int:
    """Write labels to a file in the format of its ending; return the number of examples."""
    writers = {".csv": write_csv, ".parquet": write_parquet, ".json": write_json}
    write = write_label_studio if path.name.endswith(LABEL_STUDIO) else writers.get(path.suffix.lower())
    if write is None:
        endings = ", ".join([*writers, LABEL_STUDIO])
        raise ValueError(
            f"cannot tell the format of {path.name}: end its name with {endings}, or export folders"
        )
    check_target(path, partial(is_export, path), overwrite)
    table = getattr(session.source, "path", None)
    if table is not None and is_same(path, table):
        raise ValueError(f"{path} is what people label: name another file")
    found = list(export_rows(session, predictions, with_audit))
    write(session, path, found)
    return len(found)


def count_audited(session: Session) -> int:
    """Return the number of labels of the audit."""
    labels = session.snapshot().labels
    return len(
        {one.key for one in session.snapshot().answers if one.purpose == "audit" and one.key in labels}
    )


def export_rows(session: Session, predictions: bool, with_audit: bool = False) -> Iterator[Row]:
    """Yield a row for each answered example in the order of names, then one for each predicted one.

    Answers of the audit are left out unless `with_audit`: a model that is trained on them cannot be scored by them.
    """
    classes, snapshot = session.book.classes(), session.snapshot()
    people: dict[str, list[str]] = {}
    first: dict[str, CurrentAnswer] = {}
    for one in snapshot.answers:
        first.setdefault(one.key, one)
        if one.act != "skip" and one.person not in people.setdefault(one.key, []):
            people[one.key].append(one.person)
    remarked = remarks_by_key(session.store)
    for key in sorted(snapshot.labels, key=lambda key: (first[key].name, key)):
        if first[key].purpose == "audit" and not with_audit:
            continue
        answer = decode_answer(session.kind, snapshot.labels[key], classes)
        row = make_row(first[key].name, answer, "people", None, people[key], first[key].purpose, key)
        yield {**row, **remark_cells(remarked.get(key, []))}
    found = session.predictions() if predictions else None
    if found is None:
        return
    with session.store.read_transaction() as tx:
        here = tx.execute(
            select(examples.c.key, examples.c.name).where(examples.c.here).order_by(examples.c.name)
        ).all()
    for key, name in here:
        if key in found.places and key not in snapshot.labels:
            guess = make_suggestion(session, found, key, classes)
            yield make_row(name, guess.answer, "model", guess.confidence, [], None, key)


def make_row(
    name: str,
    answer: Answer,
    by: str,
    sure: float | None,
    people: Sequence[str],
    purpose: str | None,
    key: str,
) -> Row:
    """Return the row of one example."""
    values = (name, answer, by, sure, list(people), purpose, key)
    return {**dict(zip(OLD_COLUMNS, values, strict=True)), **remark_cells([])}


def flat_row(found: Row) -> Row:
    """Return a row whose cells are words and numbers."""
    answer = found["answer"]
    words = SEPARATOR.join(answer) if isinstance(answer, tuple) else answer
    joined = {name: SEPARATOR.join(found[name]) for name in ("people", "unsure", "flagged", "notes")}
    return {**found, "answer": words, **joined}


def write_csv(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Write a sheet in which no name, class or person becomes a formula."""
    lines = [["" if cell is None else cell for cell in flat_row(each).values()] for each in found]
    write_whole(path, sheet([COLUMNS, *lines]))


def write_parquet(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Write a Parquet file with the columns of the csv; several classes and people are lists."""
    writer = import_parquet()
    import pyarrow

    words = pyarrow.string()
    answer = {"number": pyarrow.float64(), "one": words, "several": pyarrow.list_(words)}[session.kind]
    several = pyarrow.list_(words)
    kinds = (words, answer, words, pyarrow.float64(), several, words, words, several, several, several)
    shape = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)), metadata={"format": FORMAT})
    plain = [
        {**each, "answer": list(each["answer"])} if session.kind == "several" else each for each in found
    ]
    with replacing(path) as file:
        writer.write_table(pyarrow.Table.from_pylist(plain, schema=shape), file)


def write_json(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Write all labels with every person's answers."""
    classes = session.book.classes()
    everybody: dict[str, list[Row]] = {}
    for one in session.snapshot().answers:
        words = None if one.value is None else decode_answer(session.kind, one.value, classes)
        told = {"person": one.person, "act": one.act, "answer": words, "seconds": one.seconds, "at": one.at}
        everybody.setdefault(one.key, []).append(told)
    held = [{**each, "said": everybody.get(each["key"], [])} for each in found]
    head = {"format": FORMAT, "version": 1, "kind": session.kind, "classes": session.classes()}
    remarks = [asdict(each) for each in current_remarks(session.store)]  # also on what nobody answered
    write_whole(
        path, json.dumps({**head, "remarks": remarks, "examples": held}, ensure_ascii=False, indent=1) + "\n"
    )


def write_label_studio(session: Session, path: Path, found: Sequence[Row]) -> None:
    """Write tasks for Label Studio: answered ones with an annotation, predicted ones with a prediction."""
    from jostle.labeling.labelstudio import Tags, make_prediction, make_result, make_task

    kind = session.source.kind
    tags = Tags(object=kind, field=kind, kind=session.kind)
    version = f"round-{session.store.last_model()}"
    tasks = []
    for order, (each, content) in enumerate(read_contents(session, found)):
        guessed = each["by"] == "model"
        guess = make_prediction(each["answer"], each["confidence"], version, tags) if guessed else None
        made = make_task(content, each["key"], order, tags, guess)
        if not guessed:
            made["data"]["jostle_purpose"] = each["purpose"]
            made["annotations"] = [{"result": [make_result(each["answer"], tags)], "was_cancelled": False}]
        tasks.append(made)
    write_whole(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")


def read_contents(session: Session, found: Iterable[Row]) -> Iterator[tuple[Row, Content]]:
    """Yield rows with their contents; skip those whose content is gone."""
    for each in found:
        with suppress(GoneError):
            yield each, session.index.content(each["key"])


def is_export(path: Path, head: bytes) -> bool:
    """Return whether jostle wrote a file as an export, so that it may be overwritten without being asked.

    A file with an additional column is not, and neither is one that Label Studio wrote of tasks from here.
    """
    if head.startswith(b"PAR1"):
        shape = import_parquet().read_schema(path)
        ours = (shape.metadata or {}).get(b"format") == FORMAT.encode()
        return ours and tuple(shape.names) in (COLUMNS, OLD_COLUMNS)
    tasks = head.startswith(b'[\n {\n  "data": {') and b'"jostle_key"' in head
    sheet = has_columns(head, COLUMNS) or has_columns(head, OLD_COLUMNS)
    return tasks or sheet or head.startswith(f'{{\n "format": "{FORMAT}"'.encode())


NAME_COLUMNS = (
    "key",
    "name",
    "file",
    "filename",
    "path",
    "id",
)  # columns that say which example, the first is taken
ANSWER_COLUMNS = ("answer", "label", "class", "target")  # columns that say what it is
IMPORT_PERSON, DATA_PERSON = "import", "data"  # whose answers they are


@dataclass(frozen=True)
class Imported:
    """Result of an import."""

    entered: int
    unknown: tuple[str, ...]  # names that no example of the project has
    empty: int  # rows without an answer


def import_labels(
    session: Session, path: Path, *, person: str = IMPORT_PERSON, add_classes: bool = False
) -> Imported:
    """Import the labels of a file; raise ValueError for new classes unless `add_classes`."""
    session.index.refresh()
    found = read_rows(path)
    which, what = find_column(path, found, NAME_COLUMNS), find_column(path, found, ANSWER_COLUMNS)
    keys = keys_by_name(session)
    pairs = [(str(row.get(which) or ""), row.get(what)) for row in found if row.get("by") != "model"]
    filled = [
        (name, said) for name, answer in pairs if (said := parse_answer(session.kind, answer)) is not None
    ]
    if session.kind != "number":
        _check_classes(session, filled, add_classes)
    classes, stamp = session.book.classes(), digest(path.read_bytes())[:12]
    made = [
        (keys[name], encode_answer(session.kind, answer, classes), f"import-{stamp}-{place}")
        for place, (name, answer) in enumerate(filled)
        if name in keys
    ]
    unknown = tuple(name for name, _ in filled if name not in keys)
    audited = {keys.get(str(row.get(which)), "") for row in found if row.get("purpose") == "audit"}
    entered = session.store.import_answers(person, made, audited)
    return Imported(entered, unknown, len(pairs) - len(filled))


def import_column(session: Session, column: str) -> int:
    """Import the labels that the data has in a column; return the number of new ones."""
    cells, classes = session.source.column(column), session.book.classes()
    with session.store.read_transaction() as tx:
        keys = {row.name: row.key for row in tx.execute(select(places).where(places.c.key.is_not(None)))}
    filled = {keys[name]: cell for name, cell in cells.items() if name in keys and not is_missing(cell)}
    made = [
        (
            key,
            encode_answer(session.kind, parse_answer(session.kind, cell), classes),
            f"data-{digest(f'{key}{cell}'.encode())}",
        )
        for key, cell in filled.items()
    ]
    return session.store.import_answers(DATA_PERSON, made)


def keys_by_name(session: Session) -> dict[str, str]:
    """Return examples by key, by the names of all their places, and by the last part of a path if that is unique."""
    with session.store.read_transaction() as tx:
        named = {row.name: row.key for row in tx.execute(select(places).where(places.c.key.is_not(None)))}
        keys = {key: key for key in tx.execute(select(examples.c.key)).scalars()}
    short: dict[str, set[str]] = {}
    for name, key in named.items():
        short.setdefault(name.rpartition("/")[2], set()).add(key)
    return {**{name: found.pop() for name, found in short.items() if len(found) == 1}, **named, **keys}


def read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """Read the rows of a file."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _read_json(path)
    if suffix == ".parquet":
        return import_parquet().read_table(path).to_pylist()  # type: ignore[no-any-return]
    if suffix == ".csv":
        return [{name: _restore_cell(cell) for name, cell in row.items()} for row in CsvFile(path).rows()]
    raise SourceError(f"{path.name}: labels are read from .csv, .parquet or .json")


def _read_json(path: Path) -> list[dict[str, Any]]:
    """Read a list of objects, or the examples of an export; raise SourceError for JSON of another shape."""
    expected = 'expected a list such as [{"name": "a.jpg", "answer": "cat"}], or an export of jostle'
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as reason:
        why = "it is nested too deeply" if isinstance(reason, RecursionError) else reason
        raise SourceError(f"{path.name} is no JSON that can be read: {why}; {expected}") from None
    rows = held.get("examples") if isinstance(held, dict) else held
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path.name}: {expected}; got {_describe_json(held)}")
    return rows


def _describe_json(held: Any) -> str:
    if isinstance(held, dict):
        return f"an object with {', '.join(map(repr, list(held)[:5])) or 'nothing in it'}"
    if isinstance(held, list):
        return f"a list that holds {type(next(row for row in held if not isinstance(row, dict))).__name__}"
    return type(held).__name__


def parse_answer(kind: str, answer: Any) -> Any:
    """Return an answer as a session takes it; None for an empty cell."""
    if isinstance(answer, dict) or (isinstance(answer, list) and kind != "several"):
        raise SourceError(f"expected a class or a number as the answer of an example; got {answer!r:.80}")
    if answer is None or (isinstance(answer, str) and not answer.strip() and kind != "several"):
        return None
    if kind == "several":
        return (
            [part.strip() for part in answer.split(SEPARATOR.strip()) if part.strip()]
            if isinstance(answer, str)
            else answer
        )
    return answer if kind == "number" else str(answer)


def _restore_cell(cell: Cell) -> Cell:
    return unhidden(cell) if isinstance(cell, str) else cell


def find_column(path: Path, found: Sequence[Mapping[str, Any]], usual: Sequence[str]) -> str:
    """Return the first of the usual columns that a file has; raise SourceError if there is none."""
    columns = list(found[0]) if found else []
    for name in usual:
        for column in columns:
            if column.lower() == name:
                return column
    raise SourceError(
        f"{path.name} has columns {', '.join(columns) or 'none'}; expected one of {', '.join(usual)}"
    )


def _check_classes(session: Session, filled: Sequence[tuple[str, Any]], add: bool) -> None:
    numbers = session.book.classes().numbers
    named = dict.fromkeys(
        clean_class_name(name)
        for _, answer in filled
        for name in ([answer] if isinstance(answer, str) else answer)
    )
    new = [name for name in named if name not in numbers]
    if new and not add:
        raise ValueError(
            f"the file has classes that the project does not: {', '.join(new[:10])}; add them first"
        )
    for name in new:
        session.book.add(name)
