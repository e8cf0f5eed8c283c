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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from jostle.datasets.arrow_files import holds_arrow
from jostle.datasets.table_files import is_missing, plain_row
from jostle.labeling.answers import clean_class_name
from jostle.labeling.export import folders, json_files, tables
from jostle.labeling.export.tables import Export, Means, Row
from jostle.labeling.sources.contents import SourceError, digest
from jostle.labeling.sources.near_copies import COPY
from jostle.labeling.sources.tables import Table
from jostle.labeling.store.edits import Remark, add_remarks, remark_cells, remarks_by_key
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
    "csv": Format(tables.write_csv, tables.read_csv, (".csv",)),
    "parquet": Format(tables.write_parquet, tables.read_parquet, (".parquet",)),
    "json": Format(json_files.write_json, json_files.read_json, (".json",)),
    "table": Format(tables.write_table, tables.read_table, (".csv", ".parquet")),
    "huggingface": Format(tables.write_huggingface, tables.read_parquet, (".parquet", "")),
    "imagefolder": Format(folders.write_imagefolder, folders.read_imagefolder, ("",), pictures=True),
    "folders": Format(
        folders.write_class_folders, folders.read_class_folders, ("",),
        pictures=True, numbers=False, predictions=False,
    ),
    "fiftyone": Format(folders.write_fiftyone, folders.read_fiftyone, ("",), pictures=True, numbers=False),
    "coco": Format(json_files.write_coco, json_files.read_json, (".json",), pictures=True, numbers=False),
    "labelstudio": Format(json_files.write_label_studio, json_files.read_json, (".json",)),
}  # fmt: skip
NAMED = ("labelstudio", "coco")  # formats that the end of a name chooses: mine.coco.json


def target_format(path: Path, name: str | None) -> str:
    """Return the name of the format of a file or folder to write."""
    if name is None:
        json = next((each for each in NAMED if path.name.lower().endswith(f"{each}.json")), "json")
        by_ending = {".csv": "csv", ".parquet": "parquet", ".json": json, "": "folders"}
        name = by_ending.get(path.suffix.lower())
    if name is None:
        raise ValueError(
            f"cannot tell the format of {path.name}: end its name with .csv, .parquet, .json, "
            f"{', '.join(f'{each}.json' for each in NAMED)}, or pass --format: {', '.join(FORMATS)}"
        )
    return check_name(name)


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
        return "imagefolder" if any((path / each).is_file() for each in folders.METADATA) else "folders"
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

        def is_ours(head: bytes) -> bool:
            return json_files.is_json_export(head) or tables.is_sheet(session.source, path, head)

        check_target(path, is_ours, overwrite)
    table = getattr(session.source, "path", None)
    if table is not None and is_same(path, table):
        raise ValueError(f"{path} is what people label: name another file")
    chosen.write(held, path)
    return len(held.rows)


def count_audited(session: Session) -> int:
    """Return the number of labels of the audit."""
    found = session.snapshot()
    return len({one.key for one in found.answers if one.purpose == "audit" and one.key in found.labels})


def export_rows(session: Session, predictions: bool, with_audit: bool = False) -> Iterator[Row]:
    """Yield a row for each answered example in the order of names, then one for each predicted one."""
    classes, snapshot = session.book.classes(), session.snapshot()
    people: dict[str, list[str]] = {}
    first: dict[str, CurrentAnswer] = {}
    for one in snapshot.answers:
        first.setdefault(one.key, one)
        if one.act != "skip" and one.person not in people.setdefault(one.key, []):
            people[one.key].append(one.person)
    remarked, copies = remarks_by_key(session.store), session.copies.get()
    for key in sorted(snapshot.labels, key=lambda key: (first[key].name, key)):
        name, purpose = first[key].name, first[key].purpose
        if purpose == "audit" and not with_audit:
            continue
        answer = session.type.decode(snapshot.labels[key], classes)
        remarks = remarked.get(key, [])
        yield make_row(name, answer, "people", None, people[key], purpose, key, remarks=remarks)
        for copy in [each for each in copies.copies.get(key, ()) if each not in snapshot.labels]:
            name = session.question(copy).name
            yield make_row(name, answer, COPY, None, people[key], purpose, copy, remarks=remarks)
    if not predictions or (found := session.predictions()) is None:
        return
    known = snapshot.labels.keys() | copies.carried(snapshot.labels).keys()
    for row in session.store.rows(select(examples).where(examples.c.here).order_by(examples.c.name)):
        if row.key in found.places and row.key not in known:
            guess = found.suggestion(row.key, classes, session.store.last_model())
            yield make_row(row.name, guess.answer, "model", guess.confidence, [], None, row.key)


def make_row(*cells: Any, remarks: Sequence[Remark] = ()) -> Row:
    """Return the row of one example, of the cells of `OLD_COLUMNS` and its remarks."""
    return {**dict(zip(tables.OLD_COLUMNS, cells, strict=True)), **remark_cells(list(remarks))}


NAME_COLUMNS = ("key", "name", "file", "filename", "file_name", "path", "id")  # which say which example
ANSWER_COLUMNS = ("answer", "label", "class", "target")  # columns that say what it is


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
    person: str = "import",
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
    columns = list(dict.fromkeys(name for row in rows for name in row))
    names = [name for usual in NAME_COLUMNS for name in columns if name.lower() == usual]
    keys = find_examples(session, path, rows, columns, names)
    answer = tables.find_column(path, columns, ANSWER_COLUMNS)
    read = [tables.parse_answer(session.kind, row.get(answer)) for row in rows]
    filled = [(row, key, said) for row, key, said in zip(rows, keys, read, strict=True) if said is not None]
    if session.type.has_classes:
        named = [clean_class_name(name) for _, _, said in filled for name in tables.answer_words(said)]
        known = session.book.classes().numbers
        new = [name for name in dict.fromkeys(named) if name not in known]
        if new and not add_classes:
            raise ValueError(
                f"the file has classes that the project does not: {', '.join(new[:10])}; add them first"
            )
        for name in new:
            session.book.add(name)
    classes, copies = session.book.classes(), session.copies.get().representative
    content = path.read_bytes() if path.is_file() else repr([(row, said) for row, _, said in filled]).encode()
    stamp = digest(content)[:12]
    made = [
        (key, session.type.encode(said, classes), f"import-{stamp}-{place}")
        for place, (row, key, said) in enumerate(filled)
        if key is not None and not (row.get("by") == COPY and key in copies)
    ]
    found = {key: row for key, row in zip(keys, rows, strict=True) if key is not None}
    audited = {key for key, row in found.items() if row.get("purpose") == "audit"}
    entered = session.store.import_answers(person, made, audited)
    add_remarks(session.store, {key: tables.remark_words(row) for key, row in found.items()})
    lost = [row for row, key, _ in filled if key is None]
    shown = [[str(row[name]) for name in ("name", *names) if row.get(name)] for row in lost]
    unknown = tuple(words[0] if words else "a row without a name" for words in shown)
    remarked = [any(tables.remark_words(row).values()) for row in rows]
    empty = sum(said is None and not more for said, more in zip(read, remarked, strict=True))
    return Imported(entered, unknown, empty)


def read_rows(session: Session, path: Path, format: str | None = None) -> list[Row]:
    """Read the rows of a file or folder."""
    return FORMATS[source_format(path, format)].read(path, session)


def find_examples(
    session: Session, path: Path, rows: Sequence[Row], columns: Sequence[str], names: Sequence[str]
) -> list[str | None]:
    """Return the key of each row's example, by its key, a content in the file, its name, or what it shows.

    None where the project has no such example.
    """
    source, keys = session.source, keys_by_name(session)
    table = source if isinstance(source, Table) and set(source.shown()) <= set(columns) else None
    if not names and table is None and "content" not in columns:
        tables.find_column(path, columns, NAME_COLUMNS)  # raises an error that names the columns
    found = []
    for row in rows:
        named = next((str(row[name]) for name in names if row.get(name) not in (None, "")), None)
        content = row.get("content")
        if not row.get("key") and isinstance(content, str) and content in keys:
            named = content
        elif named is None and table is not None:
            shown = {name: row[name] for name in table.header() if name in row}
            named = table.content("", plain_row(shown)).key
        found.append(keys.get(named or ""))
    return found


def import_column(session: Session, column: str) -> int:
    """Import the labels that the data has in a column; return the number of new ones."""
    classes, keys = session.book.classes(), tables.place_keys(session)
    held = session.source.column(column).items()
    cells = {keys[name]: cell for name, cell in held if name in keys and not is_missing(cell)}
    made = []
    for key, cell in cells.items():
        answer = session.type.encode(tables.parse_answer(session.kind, cell), classes)
        made.append((key, answer, f"data-{digest(f'{key}{cell}'.encode())}"))
    return session.store.import_answers("data", made)


def keys_by_name(session: Session) -> dict[str, str]:
    """Return examples by key, by the names of all their places, and by the last part of a path if that is unique."""
    named = tables.place_keys(session)
    keys = {key: key for key in session.store.find_keys()}
    short: dict[str, set[str]] = {}
    for name, key in named.items():
        short.setdefault(name.rpartition("/")[2], set()).add(key)
    return {**{name: found.pop() for name, found in short.items() if len(found) == 1}, **named, **keys}
