"""Labels made elsewhere: a csv, Parquet or JSON file with a column of names or keys and a column of answers.

They are learnt from like answers of a person named `import`, and never count as audit: nobody knows how they were
chosen, unless the file is an export that says so. The same file read twice is there once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from jostle.labelling.answers import class_name, stored
from jostle.labelling.coding import is_gap
from jostle.labelling.contents import Cell, digest
from jostle.labelling.exports import BETWEEN
from jostle.labelling.schema import examples, places
from jostle.labelling.source import SourceError
from jostle.labelling.tables import CsvTable, parquet
from jostle.plumbing.sheets import unhidden

if TYPE_CHECKING:
    from jostle.labelling.session import Session

NAMES = (
    "key",
    "name",
    "file",
    "filename",
    "path",
    "id",
)  # columns that say which example, the first is taken
ANSWERS = ("answer", "label", "class", "target")  # columns that say what it is
PERSON, DATA = "import", "data"  # whose answers they are


@dataclass(frozen=True)
class Imported:
    """What came of an import."""

    entered: int
    unknown: tuple[str, ...]  # names that no example of the project has
    empty: int  # rows without an answer


def import_labels(
    session: Session, path: Path, *, person: str = PERSON, add_classes: bool = False
) -> Imported:
    """Enter the labels of a file; classes that the project does not have are an error, or added if told so."""
    session.index.refresh()
    found = read_rows(path)
    which, what = _column(path, found, NAMES), _column(path, found, ANSWERS)
    keys = known(session)
    pairs = [(str(row.get(which) or ""), row.get(what)) for row in found if row.get("by") != "model"]
    filled = [(name, said) for name, answer in pairs if (said := parsed(session.kind, answer)) is not None]
    if session.kind != "number":
        _classes(session, filled, add_classes)
    classes, stamp = session.book.classes(), digest(path.read_bytes())[:12]
    made = [
        (keys[name], stored(session.kind, answer, classes), f"import-{stamp}-{place}")
        for place, (name, answer) in enumerate(filled)
        if name in keys
    ]
    unknown = tuple(name for name, _ in filled if name not in keys)
    audited = {keys.get(str(row.get(which)), "") for row in found if row.get("purpose") == "audit"}
    entered = session.store.give(person, made, audited)
    return Imported(entered, unknown, len(pairs) - len(filled))


def take_column(session: Session, column: str) -> int:
    """Labels that the data has already: the filled cells of a column. How many were new."""
    cells, classes = session.source.column(column), session.book.classes()
    with session.store.reading() as tx:
        keys = {row.name: row.key for row in tx.execute(select(places).where(places.c.key.is_not(None)))}
    filled = {keys[name]: cell for name, cell in cells.items() if name in keys and not is_gap(cell)}
    made = [
        (
            key,
            stored(session.kind, parsed(session.kind, cell), classes),
            f"data-{digest(f'{key}{cell}'.encode())}",
        )
        for key, cell in filled.items()
    ]
    return session.store.give(DATA, made)


def known(session: Session) -> dict[str, str]:
    """Examples by key, by the names of all their places, and by the last part of a path where that is unique."""
    with session.store.reading() as tx:
        named = {row.name: row.key for row in tx.execute(select(places).where(places.c.key.is_not(None)))}
        keys = {key: key for key in tx.execute(select(examples.c.key)).scalars()}
    short: dict[str, set[str]] = {}
    for name, key in named.items():
        short.setdefault(name.rpartition("/")[2], set()).add(key)
    return {**{name: found.pop() for name, found in short.items() if len(found) == 1}, **named, **keys}


def read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a file."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        held = json.loads(path.read_text(encoding="utf-8"))
        return held["examples"] if isinstance(held, dict) and "examples" in held else held  # type: ignore[no-any-return]
    if suffix == ".parquet":
        return parquet().read_table(path).to_pylist()  # type: ignore[no-any-return]
    if suffix == ".csv":
        return [{name: _cell(cell) for name, cell in row.items()} for row in CsvTable(path, (), ()).rows()]
    raise SourceError(f"{path.name}: labels are read from .csv, .parquet or .json")


def parsed(kind: str, answer: Any) -> Any:
    """An answer as it is told to a session; None where there is none."""
    if answer is None or (isinstance(answer, str) and not answer.strip() and kind != "several"):
        return None
    if kind == "several":
        return (
            [part.strip() for part in answer.split(BETWEEN.strip()) if part.strip()]
            if isinstance(answer, str)
            else answer
        )
    return answer if kind == "number" else str(answer)


def _cell(cell: Cell) -> Cell:
    return unhidden(cell) if isinstance(cell, str) else cell


def _column(path: Path, found: Sequence[Mapping[str, Any]], usual: Sequence[str]) -> str:
    columns = list(found[0]) if found else []
    for name in usual:
        for column in columns:
            if column.lower() == name:
                return column
    raise SourceError(
        f"{path.name} has columns {', '.join(columns) or 'none'}; expected one of {', '.join(usual)}"
    )


def _classes(session: Session, filled: Sequence[tuple[str, Any]], add: bool) -> None:
    numbers = session.book.classes().numbers
    named = dict.fromkeys(
        class_name(name) for _, answer in filled for name in ([answer] if isinstance(answer, str) else answer)
    )
    new = [name for name in named if name not in numbers]
    if new and not add:
        raise ValueError(
            f"the file has classes that the project does not: {', '.join(new[:10])}; add them first"
        )
    for name in new:
        session.book.add(name)
