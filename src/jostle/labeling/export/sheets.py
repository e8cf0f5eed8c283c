"""Labels as tables: csv, Parquet, the user's table with columns added, and data sets as Hugging Face stores them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from jostle.labeling.export.rows import (
    COLUMNS,
    FORMAT,
    LISTS,
    OLD_COLUMNS,
    Export,
    Row,
    answer_words,
    flat_row,
    place_keys,
)
from jostle.labeling.sources.contents import Content, digest
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


ROWS_PER_GROUP = 100  # examples in memory at once
DATA_FILE = "data-00000-of-00001.arrow"
TYPES = {bool: "bool", int: "int64", float: "float64"}


class Column(NamedTuple):
    """Column of a data set: its feature in Hugging Face's words, and its type in Arrow."""

    feature: Row
    type: Any


def write_huggingface(export: Export, path: Path) -> None:
    """Write labeled examples with their contents: a Parquet file, or a folder that `load_from_disk` opens."""
    parquet = import_parquet()
    import pyarrow

    columns = shown_columns(export)
    answer = PREFIX + "answer" if "label" in columns else "label"
    columns = {**columns, answer: label_column(export), **extra_columns()}
    features = {name: column.feature for name, column in columns.items()}
    written = json.dumps({"info": {"features": features}})
    schema = pyarrow.schema(
        [(name, column.type) for name, column in columns.items()],
        metadata={"huggingface": written, "format": FORMAT},
    )
    folder = path.suffix.lower() != ".parquet"
    with ExitStack() as open_files:
        file = open_files.enter_context(replacing(path / DATA_FILE if folder else path))
        make = pyarrow.ipc.new_stream if folder else parquet.ParquetWriter
        writer = open_files.enter_context(make(file, schema))
        rows = data_rows(export, columns, answer)
        while part := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))
    if folder:
        write_state(path, features)


def write_state(folder: Path, features: Row) -> None:
    """Write the two files beside the data of a saved data set."""
    about = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    write_whole(folder / "dataset_info.json", json.dumps(about, indent=2))
    state: Row = {
        "_data_files": [{"filename": DATA_FILE}],
        "_fingerprint": "".join(f"{byte:02x}" for byte in FORMAT.encode())[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    write_whole(folder / "state.json", json.dumps(state, indent=2))  # last: without it there is no data set


def shown_columns(export: Export) -> dict[str, Column]:
    """Return the columns of the contents: pictures, texts, or the fields of rows."""
    import pyarrow

    source = export.session.source
    if source.kind == "image":
        picture = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
        return {"image": Column({"_type": "Image"}, picture)}
    contents = [content for _, content in export.contents()]
    cells: dict[str, list[Any]] = {}
    for content in contents:
        for name, cell in shown_cells(content, export).items():
            cells.setdefault(name, []).append(cell)
    return {name: value_column(values) for name, values in cells.items()}


def shown_cells(content: Content, export: Export) -> Row:
    """Return the cells of a content by column."""
    if content.kind == "image":
        return {"image": {"bytes": content.data, "path": content.name}}
    if content.kind == "row":
        return dict(content.fields or {})
    usual = ("text",) if len(content.texts) == 1 else ("text1", "text2")
    return dict(zip(getattr(export.session.source, "texts", usual), content.texts, strict=True))


def value_column(cells: Sequence[Any]) -> Column:
    """Return the column of some cells: truth values, whole numbers, numbers, or words."""
    import pyarrow

    kinds = {type(cell) for cell in cells if cell is not None}
    kinds = {float} if kinds == {int, float} else kinds
    name = TYPES.get(kinds.pop(), "string") if len(kinds) == 1 else "string"
    return Column({"dtype": name, "_type": "Value"}, pyarrow.type_for_alias(name))


def label_column(export: Export) -> Column:
    """Return the column of answers: a class number with its name, a list of such, or a number."""
    import pyarrow

    named = {"names": export.session.classes(), "_type": "ClassLabel"}
    return {
        "one": Column(named, pyarrow.int64()),
        "several": Column({"feature": named, "_type": "List"}, pyarrow.list_(pyarrow.int64())),
        "number": value_column([0.0]),
    }[export.session.kind]


def extra_columns() -> dict[str, Column]:
    """Return the columns beside contents and answers."""
    words, number = value_column([""]), value_column([0.0])
    return {PREFIX + name: number if name == "confidence" else words for name in COLUMNS if name != "answer"}


def data_rows(export: Export, columns: dict[str, Column], answer: str) -> Iterator[Row]:
    """Yield the rows of the data set."""
    numbers = {name: number for number, name in enumerate(export.session.classes())}
    kind = export.session.kind
    for each, content in export.contents():
        chosen = [numbers[name] for name in answer_words(each["answer"])]
        said = {"one": chosen[:1] and chosen[0], "several": chosen, "number": each["answer"]}[kind]
        shown = {
            name: str(cell) if columns[name].feature.get("dtype") == "string" and cell is not None else cell
            for name, cell in shown_cells(content, export).items()
        }
        extra = {PREFIX + name: cell for name, cell in flat_row(each).items() if name != "answer"}
        yield {**shown, answer: said, **extra}
