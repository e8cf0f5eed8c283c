"""Labels as csv and Parquet: a table of their own, or the user's table with columns added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jostle.datasets.arrow_files import (
    class_names,
    find_row_groups,
    import_parquet,
    is_picture_column,
    name_classes,
    picture_bytes,
    read_row_group,
)
from jostle.datasets.fetch import DataError
from jostle.datasets.table_files import CsvFile
from jostle.labeling.answers import AnswerKind
from jostle.labeling.contents import digest
from jostle.labeling.formats.rows import (
    COLUMNS,
    FORMAT,
    LISTS,
    OLD_COLUMNS,
    Export,
    Row,
    flat_row,
    place_keys,
)
from jostle.utils.files import has_columns, replacing, sheet, unhidden, write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session

PREFIX = "jostle_"  # of columns that are added to a user's table
ADDED = COLUMNS[1:]  # a row of the user's is named by its place


def write_csv(export: Export, path: Path) -> None:
    """Write a sheet in which no name, class or person becomes a formula."""
    write_whole(path, sheet([COLUMNS, *(_csv_cells(flat_row(each)) for each in export.rows)]))


def _csv_cells(found: Mapping[str, Any], columns: Sequence[str] = COLUMNS) -> list[Any]:
    return ["" if found.get(name) is None else found[name] for name in columns]


def read_csv(path: Path, session: Session) -> list[Row]:
    """Read rows as they are, or the columns that jostle added to a user's table."""
    rows = [
        {name: unhidden(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        for row in CsvFile(path).rows()
    ]
    return _added_rows(rows)


def write_parquet(export: Export, path: Path) -> None:
    """Write a Parquet file with the columns of the csv; several classes and people are lists."""
    writer = import_parquet()
    import pyarrow

    shape = pyarrow.schema(_fields(export.session.kind, COLUMNS), metadata={"format": FORMAT})
    with replacing(path) as file:
        writer.write_table(pyarrow.Table.from_pylist(list(export.rows), schema=shape), file)


def _fields(kind: AnswerKind, columns: Sequence[str], prefix: str = "") -> list[tuple[str, Any]]:
    """Return names and types of columns in Arrow."""
    import pyarrow

    words, number = pyarrow.string(), pyarrow.float64()
    answer = {"number": number, "one": words, "several": pyarrow.list_(words)}[kind]
    types = {"answer": answer, "confidence": number, **dict.fromkeys(LISTS, pyarrow.list_(words))}
    return [(prefix + name, types.get(name, words)) for name in columns]


def read_parquet(path: Path, session: Session) -> list[Row]:
    """Read rows of Parquet files or of a saved data set; class numbers as names, pictures by their keys."""
    groups, schema = find_row_groups(str(path))
    rows: list[Row] = []
    pictures = [name for name in schema.names if is_picture_column(schema.field(name).type)]
    for group in groups:
        held = read_row_group(group.file, group.number, tuple(schema.names))
        part: list[Row] = held.drop_columns(pictures).to_pylist()
        for name in pictures[:1]:
            for row, value in zip(part, held.column(name), strict=True):
                row["content"] = _picture_key(value.as_py(), Path(group.file).parent)
        rows += part
    for name in set(schema.names) - set(pictures):
        if (names := class_names(schema, name)) is not None:
            cells = name_classes([row[name] for row in rows], names)
            rows = [{**row, name: cell} for row, cell in zip(rows, cells, strict=True)]
    return _added_rows(rows)


def _picture_key(value: Any, folder: Path) -> str:
    found = picture_bytes(value, folder)
    if isinstance(found, Path):
        found = found.read_bytes() if found.is_file() else None
    return "" if found is None else digest(found)


def _added_rows(rows: list[Row]) -> list[Row]:
    """Return the columns that jostle added, without rows that have no answer; rows of others as they are."""
    if not rows or PREFIX + "key" not in rows[0]:
        return rows
    answer = PREFIX + "answer" if PREFIX + "answer" in rows[0] else "label"
    return [
        {**{name: row.get(PREFIX + name) for name in COLUMNS}, "answer": row.get(answer)}
        for row in rows
        if row[PREFIX + "key"]
    ]


def write_table(export: Export, path: Path) -> None:
    """Write the user's table with columns added; its own columns and the order of its rows stay as they are."""
    source = export.session.source
    table = getattr(source, "path", None)
    if table is None or not table.is_file() or not hasattr(source, "header"):
        raise ValueError(
            "--format table adds columns to a .csv or .parquet that is labeled; this project has none"
        )
    if path.suffix.lower() != table.suffix.lower():
        raise ValueError(f"{table.name} is written as {table.suffix}; got {path.name}")
    if PREFIX + "answer" in source.header():
        raise ValueError(
            f"{table.name} has a column {PREFIX}answer: it is an export already; label the original"
        )
    keys, labels = place_keys(export.session), {each["key"]: each for each in export.rows}
    rows = [labels.get(keys.get(name, "")) for name in source.places()]
    (_extend_parquet if table.suffix.lower() == ".parquet" else _extend_csv)(export, table, path, rows)


def read_table(path: Path, session: Session) -> list[Row]:
    """Read the columns that jostle added to a user's table."""
    return (read_parquet if path.suffix.lower() == ".parquet" else read_csv)(path, session)


def _extend_csv(export: Export, table: Path, path: Path, rows: Sequence[Row | None]) -> None:
    """Append cells to the lines of a csv, which stay as they are, byte for byte."""
    starts = [start for start, _ in CsvFile(table).records()]
    content = table.read_bytes()
    ends = [*starts[1:], len(content)]
    new = [
        [PREFIX + name for name in ADDED],
        *(_csv_cells(flat_row(row) if row else {}, ADDED) for row in rows),
    ]
    lines = [content[start:end].rstrip(b"\r\n") for start, end in zip(starts, ends, strict=True)]
    newline = b"\r\n" if content[: ends[0]].endswith(b"\r\n") else b"\n"
    cells = [sheet([each]).rstrip("\n").encode() for each in new]
    write_whole(path, b"".join(line + b"," + each + newline for line, each in zip(lines, cells, strict=True)))


def _extend_parquet(export: Export, table: Path, path: Path, rows: Sequence[Row | None]) -> None:
    """Append columns to each row group of a Parquet file."""
    writer = import_parquet()
    import pyarrow

    groups, schema = find_row_groups(str(table))
    added = pyarrow.schema(_fields(export.session.kind, ADDED, PREFIX))
    whole = pyarrow.schema([*schema, *added], metadata=schema.metadata)
    with replacing(path) as file, writer.ParquetWriter(file, whole) as opened:
        for group in groups:
            held = read_row_group(group.file, group.number, tuple(schema.names))
            part = rows[group.start : group.start + group.rows]
            cells = [{PREFIX + name: (row or {}).get(name) for name in ADDED} for row in part]
            new = pyarrow.Table.from_pylist(cells, schema=added)
            for name in added.names:
                held = held.append_column(added.field(name), new.column(name))
            opened.write_table(held.cast(whole))


def is_sheet(export: Export, path: Path, head: bytes) -> bool:
    """Return whether jostle wrote a table, to which nobody has added a column."""
    header: list[str] = getattr(export.session.source, "header", list)()
    extended = [*header, *(PREFIX + name for name in ADDED)]
    if head.startswith(b"PAR1"):
        shape = import_parquet().read_schema(path)
        ours = (shape.metadata or {}).get(b"format") == FORMAT.encode()
        features = (
            json.loads((shape.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features")
        )
        known = (list(COLUMNS), list(OLD_COLUMNS), list(features or ()))
        return shape.names == extended or (ours and shape.names in known)
    if has_columns(head, COLUMNS) or has_columns(head, OLD_COLUMNS):
        return True
    with suppress(DataError):
        return bool(header) and CsvFile(path).header() == extended
    return False
