"""Labels out of a project and into it, as a file or folder of any format.

An export has the answer that counts for each example. With `predictions` the last model fills in the rest, marked as
such. Answers of the audit are left out unless they are asked for: a model that is trained on them cannot be scored by
them.

Imported labels, also those of a column of the data, are answers of a person named `import`: they train and never count
as audit, unless the file is an export that marks them. Remarks come along. Importing a file twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from jostle.datasets.arrow_files import holds_arrow
from jostle.datasets.table_files import is_missing, plain_row
from jostle.labeling.answers import Answer, clean_class_name
from jostle.labeling.export import folders, json_files, tables
from jostle.labeling.export.tables import (
    OLD_COLUMNS,
    Export,
    Means,
    Row,
    answer_words,
    find_column,
    parse_answer,
    place_keys,
    remark_words,
)
from jostle.labeling.sources.contents import SourceError, digest
from jostle.labeling.sources.near_copies import COPY
from jostle.labeling.sources.tables import Table
from jostle.labeling.store.edits import add_remarks, remark_cells, remarks_by_key
from jostle.labeling.store.schema import examples
from jostle.utils.files import check_target, is_same
from jostle.utils.names import unknown

if TYPE_CHECKING:
    from jostle.labeling.audit.queue import CurrentAnswer
    from jostle.labeling.session import Session


@dataclass(frozen=True)
class Format:
    """One way to write labels, and to read them again."""

    write: Callable[[Export, Path], None]
    read: Callable[[Path, Session], list[Row]]
    endings: tuple[str, ...]
    """Endings of a file's name; "" for a folder."""
    is_ours: Callable[[Export, Path, bytes], bool] = lambda export, path, head: False
    """Whether jostle wrote a file, which it may then write over."""
    pictures: bool = False
    """Whether it is for pictures alone."""
    numbers: bool = True
    """Whether it can hold numbers as answers."""
    predictions: bool = True
    """Whether it says which answers are a model's."""

    def check(self, name: str, session: Session, path: Path) -> None:
        """Raise ValueError if this format cannot hold the labels of a project, or a path does not end as it must."""
        shows, has_classes = session.source.kind, session.type.has_classes
        if (self.pictures and shows != "image") or not (self.numbers or has_classes):
            needs = "pictures with classes" if not self.numbers else "pictures"
            asked = f"{shows}s with {'classes' if has_classes else 'numbers'}"
            raise ValueError(
                f"the format {name} is for {needs}; this project has {asked}: export a .csv or .json"
            )
        if path.suffix.lower() not in self.endings:
            ends = " or ".join(ending or "a folder, without an ending" for ending in self.endings)
            raise ValueError(f"the format {name} is written to {ends}; got {path.name}")


FORMATS = {
    "csv": Format(tables.write_csv, tables.read_csv, (".csv",), tables.is_sheet),
    "parquet": Format(tables.write_parquet, tables.read_parquet, (".parquet",), tables.is_sheet),
    "json": Format(json_files.write_json, json_files.read_json, (".json",), json_files.is_json_export),
    "table": Format(tables.write_table, tables.read_table, (".csv", ".parquet"), tables.is_sheet),
    "huggingface": Format(
        tables.write_huggingface, tables.read_parquet, (".parquet", ""), tables.is_sheet
    ),
    "imagefolder": Format(folders.write_imagefolder, folders.read_imagefolder, ("",), pictures=True),
    "folders": Format(
        folders.write_class_folders, folders.read_class_folders, ("",),
        pictures=True, numbers=False, predictions=False,
    ),
    "fiftyone": Format(folders.write_fiftyone, folders.read_fiftyone, ("",), pictures=True, numbers=False),
    "coco": Format(
        json_files.write_coco, json_files.read_json, (".json",), json_files.is_json_export,
        pictures=True, numbers=False,
    ),
    "labelstudio": Format(
        json_files.write_label_studio, json_files.read_json, (".json",), json_files.is_json_export
    ),
}  # fmt: skip
NAMED = ("labelstudio", "coco")  # formats that the end of a name chooses: mine.coco.json


def target_format(path: Path, name: str | None) -> str:
    """Return the name of the format of a file or folder to write."""
    if name is not None:
        return check_name(name)
    suffix = path.suffix.lower()
    if suffix == ".json":
        return next((each for each in NAMED if path.name.lower().endswith(f"{each}.json")), "json")
    found = {".csv": "csv", ".parquet": "parquet", "": "folders"}.get(suffix)
    if found is None:
        raise ValueError(
            f"cannot tell the format of {path.name}: end its name with .csv, .parquet, .json, "
            f"{', '.join(f'{each}.json' for each in NAMED)}, or pass --format: {', '.join(FORMATS)}"
        )
    return found


def source_format(path: Path, name: str | None) -> str:
    """Return the name of the format of a file or folder to read, by what is there."""
    if name is not None:
        return check_name(name)
    if not path.exists():
        raise SourceError(f"{path} does not exist: name a .csv, .parquet or .json of labels, or a folder")
    if path.is_dir():
        if holds_arrow(path):
            return "huggingface"
        if (path / "labels.json").is_file():
            return "fiftyone"
        named = any((path / each).is_file() for each in folders.METADATA)
        return "imagefolder" if named else "folders"
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in ("csv", "parquet", "json"):
        raise SourceError(f"{path.name}: labels are read from .csv, .parquet, .json or a folder")
    return suffix


def check_name(name: str) -> str:
    """Return the name of a format; raise ValueError with the nearest ones if there is none."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return name


def export(
    session: Session,
    path: Path,
    *,
    format: str | None = None,
    predictions: bool = False,
    with_audit: bool = False,
    overwrite: bool = False,
    means: Means = "link",
) -> int:
    """Write labels to a file or folder; return the number of examples.

    Args:
        session: The project.
        path: A file, or a folder that is new or empty.
        format: Name of the format; None: by the ending of the name, folders by class for a name without one.
        predictions: Also write the model's predictions for the rest.
        with_audit: Also write the answers of the audit, marked as such.
        overwrite: Write over a file that jostle did not write.
        means: How pictures get into a folder: "link" or "copy".
    """
    name = target_format(path, format)
    chosen = FORMATS[name]
    chosen.check(name, session, path)
    if predictions and not chosen.predictions:
        raise ValueError(f"the format {name} cannot say which answers are a model's: leave --predictions out")
    held = Export(session, list(export_rows(session, predictions, with_audit)), means)
    if not path.suffix:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(f"{path} is not empty: name a new folder")
    else:
        check_target(path, partial(chosen.is_ours, held, path), overwrite)
    table = getattr(session.source, "path", None)
    if table is not None and is_same(path, table):
        raise ValueError(f"{path} is what people label: name another file")
    chosen.write(held, path)
    return len(held.rows)


def count_audited(session: Session) -> int:
    """Return the number of labels of the audit."""
    labels = session.snapshot().labels
    return len(
        {one.key for one in session.snapshot().answers if one.purpose == "audit" and one.key in labels}
    )


def export_rows(session: Session, predictions: bool, with_audit: bool = False) -> Iterator[Row]:
    """Yield a row for each answered example in the order of names, then one for each predicted one."""
    classes, snapshot = session.book.classes(), session.snapshot()
    people: dict[str, list[str]] = {}
    first: dict[str, CurrentAnswer] = {}
    for one in snapshot.answers:
        first.setdefault(one.key, one)
        if one.act != "skip" and one.person not in people.setdefault(one.key, []):
            people[one.key].append(one.person)
    remarked, copies = remarks_by_key(session.store), session.copies.get().copies
    for key in sorted(snapshot.labels, key=lambda key: (first[key].name, key)):
        if first[key].purpose == "audit" and not with_audit:
            continue
        answer = session.type.decode(snapshot.labels[key], classes)
        row = make_row(first[key].name, answer, "people", None, people[key], first[key].purpose, key)
        yield {**row, **remark_cells(remarked.get(key, []))}
        for copy in [each for each in copies.get(key, ()) if each not in snapshot.labels]:
            yield {**row, "name": session.question(copy).name, "by": COPY, "key": copy}
    found, carried = (
        session.predictions() if predictions else None,
        session.copies.get().carried(snapshot.labels),
    )
    if found is None:
        return
    for row in session.store.rows(select(examples).where(examples.c.here).order_by(examples.c.name)):
        if row.key in found.places and row.key not in snapshot.labels and row.key not in carried:
            guess = found.suggestion(row.key, classes, session.store.last_model())
            yield make_row(row.name, guess.answer, "model", guess.confidence, [], None, row.key)


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


NAME_COLUMNS = (
    "key",
    "name",
    "file",
    "filename",
    "file_name",
    "path",
    "id",
)  # columns that say which example
ANSWER_COLUMNS = ("answer", "label", "class", "target")  # columns that say what it is
IMPORT_PERSON, DATA_PERSON = "import", "data"  # whose answers they are


@dataclass(frozen=True)
class Imported:
    """Result of an import."""

    entered: int
    unknown: tuple[str, ...]  # names that no example of the project has
    empty: int  # rows without an answer


def import_labels(
    session: Session,
    path: Path,
    *,
    format: str | None = None,
    person: str = IMPORT_PERSON,
    add_classes: bool = False,
) -> Imported:
    """Import the labels of a file or folder.

    Args:
        session: The project.
        path: A file or folder of any format that `export` writes, or a table with names and labels.
        format: Name of the format; None: by what is there.
        person: Whose answers they are.
        add_classes: Add classes that the project does not have; otherwise they raise ValueError.
    """
    session.index.refresh()
    rows = [row for row in read_rows(session, path, format) if row.get("by") != "model"]
    finder = ExampleFinder(session, path, rows)
    answer = find_column(path, finder.columns, ANSWER_COLUMNS)
    read = [(row, parse_answer(session.kind, row.get(answer))) for row in rows]
    filled = [(row, said) for row, said in read if said is not None]
    if session.type.has_classes:
        _check_classes(session, [name for _, said in filled for name in answer_words(said)], add_classes)
    classes, copies = session.book.classes(), session.copies.get().representative
    stamp = digest(path.read_bytes() if path.is_file() else repr(filled).encode())[:12]
    made = [
        (key, session.type.encode(said, classes), f"import-{stamp}-{place}")
        for place, (row, said) in enumerate(filled)
        if (key := finder.key(row)) is not None and not (row.get("by") == COPY and key in copies)
    ]
    found = {key: row for row in rows if (key := finder.key(row)) is not None}
    audited = {key for key, row in found.items() if row.get("purpose") == "audit"}
    entered = session.store.import_answers(person, made, audited)
    add_remarks(session.store, {key: remark_words(row) for key, row in found.items()})
    unknown = tuple(finder.name(row) for row, _ in filled if finder.key(row) is None)
    empty = sum(said is None and not any(remark_words(row).values()) for row, said in read)
    return Imported(entered, unknown, empty)


def read_rows(session: Session, path: Path, format: str | None = None) -> list[Row]:
    """Read the rows of a file or folder."""
    return FORMATS[source_format(path, format)].read(path, session)


class ExampleFinder:
    """Finds the example of a row: by its key, by a content that the file holds, by its name, or by what it shows."""

    def __init__(self, session: Session, path: Path, rows: Sequence[Row]) -> None:
        self.source, self.keys = session.source, keys_by_name(session)
        self.columns = list(dict.fromkeys(name for row in rows for name in row))
        self.names = [name for usual in NAME_COLUMNS for name in self.columns if name.lower() == usual]
        self.shows = isinstance(self.source, Table) and set(self.source.shown()) <= set(self.columns)
        if not self.names and not self.shows and "content" not in self.columns:
            find_column(path, self.columns, NAME_COLUMNS)  # raises an error that names the columns

    def key(self, row: Row) -> str | None:
        """Return the key of a row's example; None if the project has no such example."""
        if not row.get("key") and row.get("content") in self.keys:
            return str(row["content"])
        named = next((str(row[name]) for name in self.names if row.get(name) not in (None, "")), None)
        if named is None and self.shows and isinstance(self.source, Table):
            shown = {name: row[name] for name in self.source.header() if name in row}
            named = self.source.content("", plain_row(shown)).key
        return self.keys.get(named or "")

    def name(self, row: Row) -> str:
        """Return the name of a row for people."""
        return next(
            (str(row[name]) for name in ("name", *self.names) if row.get(name)), "a row without a name"
        )


def import_column(session: Session, column: str) -> int:
    """Import the labels that the data has in a column; return the number of new ones."""
    cells, classes, keys = session.source.column(column), session.book.classes(), place_keys(session)
    filled = {keys[name]: cell for name, cell in cells.items() if name in keys and not is_missing(cell)}
    made = [
        (
            key,
            session.type.encode(parse_answer(session.kind, cell), classes),
            f"data-{digest(f'{key}{cell}'.encode())}",
        )
        for key, cell in filled.items()
    ]
    return session.store.import_answers(DATA_PERSON, made)


def keys_by_name(session: Session) -> dict[str, str]:
    """Return examples by key, by the names of all their places, and by the last part of a path if that is unique."""
    named = place_keys(session)
    keys = {key: key for key in session.store.find_keys()}
    short: dict[str, set[str]] = {}
    for name, key in named.items():
        short.setdefault(name.rpartition("/")[2], set()).add(key)
    return {**{name: found.pop() for name, found in short.items() if len(found) == 1}, **named, **keys}


def _check_classes(session: Session, names: Sequence[str], add: bool) -> None:
    numbers = session.book.classes().numbers
    new = [name for name in dict.fromkeys(map(clean_class_name, names)) if name not in numbers]
    if new and not add:
        raise ValueError(
            f"the file has classes that the project does not: {', '.join(new[:10])}; add them first"
        )
    for name in new:
        session.book.add(name)
