"""Rows of an export, and files that hold them as tables: csv, Parquet, the user's own table, and Hugging Face's.

An export has one row for each labeled example, with the columns of `COLUMNS`, whatever its format. A reader returns
rows with the columns that its file has; `key` names an example by its content, as jostle wrote it, `content` is the key
of a content in the file, and `name` is a path, an id or a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import select

from jostle.datasets import arrow_files
from jostle.datasets.fetch import DataError
from jostle.datasets.table_files import CsvFile
from jostle.labeling.answers import AnswerKind
from jostle.labeling.sources import GoneError
from jostle.labeling.sources.contents import Content, SourceError, digest
from jostle.labeling.store.schema import places
from jostle.utils.files import has_columns, replacing, sheet, unhidden, write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session
    from jostle.labeling.sources.tables import Source

OLD_COLUMNS = ("name", "answer", "by", "confidence", "people", "purpose", "key")  # of version 0.2
REMARK_COLUMNS = ("unsure", "flagged", "notes")
COLUMNS = (*OLD_COLUMNS, *REMARK_COLUMNS)
LISTS = ("people", *REMARK_COLUMNS)  # columns with several words in a cell
FORMAT = "jostle-labels"
PREFIX = "jostle_"  # of columns that are added to a user's table
ADDED = COLUMNS[1:]  # a row of the user's is named by its place
DATA_FILE = "data-00000-of-00001.arrow"  # of a saved data set

Row = dict[str, Any]
Means = Literal["link", "copy"]


@dataclass(frozen=True)
class Export:
    """Labels to write, and how pictures get into a folder."""

    session: Session
    rows: Sequence[Row]
    means: Means = "link"

    def contents(self) -> Iterator[tuple[Row, Content]]:
        """Yield rows with their contents; skip those whose content is gone."""
        for each in self.rows:
            with suppress(GoneError):
                yield each, self.session.index.content(each["key"])


def place_keys(session: Session) -> dict[str, str]:
    """Return the keys of all places by name."""
    return {row.name: row.key for row in session.store.rows(select(places).where(places.c.key.is_not(None)))}


def join_words(words: Sequence[str]) -> str:
    """Return words as one cell: with semicolons between them, or as a JSON list where a word has one."""
    if any(";" in each for each in words) or (words and words[0].startswith("[")):
        return json.dumps(list(words), ensure_ascii=False)
    return "; ".join(words)


def split_words(cell: Any) -> list[str]:
    """Return the words of a cell that `join_words` wrote, or of a list."""
    if not isinstance(cell, str):
        return list(cell or ())
    if cell.startswith("["):
        with suppress(ValueError):
            return [str(each) for each in json.loads(cell)]
    return [part.strip() for part in cell.split(";") if part.strip()]


def answer_words(answer: Any) -> list[str]:
    """Return the classes of an answer, of which a number has none."""
    if isinstance(answer, str):
        return [answer]
    return list(answer) if isinstance(answer, list | tuple) else []


def flat_row(found: Row) -> Row:
    """Return a row whose cells are words and numbers."""
    answer = found["answer"]
    flat = join_words(answer) if isinstance(answer, tuple) else answer
    return {**found, "answer": flat, **{name: join_words(found[name]) for name in LISTS}}


def extra_cells(found: Row) -> Row:
    """Return the flat cells of a row beside its name and answer, without empty ones."""
    cells = flat_row(found)
    return {name: cells[name] for name in COLUMNS[2:] if cells[name] not in (None, "")}


def remark_words(found: Row) -> dict[str, list[str]]:
    """Return the remarks of a row by column."""
    return {name: split_words(found.get(name)) for name in REMARK_COLUMNS}


def parse_answer(kind: AnswerKind, answer: Any) -> Any:
    """Return an answer as a session takes it; None for an empty cell."""
    if kind == "several" and isinstance(answer, str | list | tuple):
        return split_words(answer)
    if isinstance(answer, list | tuple) and len(answer) < 2:  # of a format that can hold several
        answer = answer[0] if answer else None
    if isinstance(answer, dict | list | tuple):
        raise SourceError(f"expected a class or a number as the answer of an example; got {answer!r:.80}")
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        return None
    return str(answer) if kind == "one" else answer


def find_column(path: Path, columns: Sequence[str], usual: Sequence[str]) -> str:
    """Return the first of the usual columns that a file has; raise SourceError if there is none."""
    for name in usual:
        for column in columns:
            if column.lower() == name:
                return column
    raise SourceError(
        f"{path.name} has columns {', '.join(columns) or 'none'}; expected one of {', '.join(usual)}"
    )


def write_csv(export: Export, path: Path) -> None:
    """Write a sheet in which no name, class or person becomes a formula."""
    write_whole(path, sheet([COLUMNS, *(csv_cells(each) for each in export.rows)]))


def csv_cells(found: Row, columns: Sequence[str] = COLUMNS) -> list[Any]:
    """Return the cells of a row, in the order of the columns."""
    cells = flat_row(found)
    return ["" if cells[name] is None else cells[name] for name in columns]


def read_csv(path: Path, session: Session) -> list[Row]:
    """Read rows as they are, or the columns that jostle added to a user's table."""
    rows = CsvFile(path).rows()
    return _added_rows([{name: unhidden(str(cell)) for name, cell in row.items()} for row in rows])


def write_parquet(export: Export, path: Path) -> None:
    """Write a Parquet file with the columns of the csv; several classes and people are lists."""
    writer = arrow_files.import_parquet()
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
    groups, schema = arrow_files.find_row_groups(str(path))
    rows: list[Row] = []
    pictures = [name for name in schema.names if arrow_files.is_picture_column(schema.field(name).type)]
    for group in groups:
        held = arrow_files.read_row_group(group.file, group.number, tuple(schema.names))
        part: list[Row] = held.drop_columns(pictures).to_pylist()
        for name in pictures[:1]:
            for row, value in zip(part, held.column(name), strict=True):
                found = arrow_files.picture_bytes(value.as_py(), Path(group.file).parent)
                if isinstance(found, Path):
                    found = found.read_bytes() if found.is_file() else None
                row["content"] = "" if found is None else digest(found)
        rows += part
    for name in set(schema.names) - set(pictures):
        if names := arrow_files.class_names(schema, name):
            cells = arrow_files.name_classes([row[name] for row in rows], names)
            rows = [{**row, name: cell} for row, cell in zip(rows, cells, strict=True)]
    return _added_rows(rows)


def _added_rows(rows: list[Row]) -> list[Row]:
    """Return the columns that jostle added, without rows that have no answer; rows of others as they are."""
    if not rows or PREFIX + "key" not in rows[0]:
        return rows
    answer = PREFIX + "answer" if PREFIX + "answer" in rows[0] else "label"
    ours = [row for row in rows if row[PREFIX + "key"]]
    return [{**{name: row.get(PREFIX + name) for name in COLUMNS}, "answer": row.get(answer)} for row in ours]


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
    if table.suffix.lower() == ".parquet":
        _extend_parquet(export.session.kind, table, path, rows)
    else:
        _extend_csv(table, path, rows)


def read_table(path: Path, session: Session) -> list[Row]:
    """Read the columns that jostle added to a user's table."""
    return (read_parquet if path.suffix.lower() == ".parquet" else read_csv)(path, session)


def _extend_csv(table: Path, path: Path, rows: Sequence[Row | None]) -> None:
    """Append cells to the lines of a csv, which stay as they are, byte for byte."""
    starts = [start for start, _ in CsvFile(table).records()]
    content = table.read_bytes()
    ends = [*starts[1:], len(content)]
    lines = [content[start:end].rstrip(b"\r\n") for start, end in zip(starts, ends, strict=True)]
    newline = b"\r\n" if content[: ends[0]].endswith(b"\r\n") else b"\n"
    added = [csv_cells(row, ADDED) if row else [""] * len(ADDED) for row in rows]
    added.insert(0, [PREFIX + name for name in ADDED])
    cells = [sheet([each]).rstrip("\n").encode() for each in added]
    write_whole(path, b"".join(line + b"," + each + newline for line, each in zip(lines, cells, strict=True)))


def _extend_parquet(kind: AnswerKind, table: Path, path: Path, rows: Sequence[Row | None]) -> None:
    """Append columns to each row group of a Parquet file."""
    writer = arrow_files.import_parquet()
    import pyarrow

    groups, schema = arrow_files.find_row_groups(str(table))
    added = pyarrow.schema(_fields(kind, ADDED, PREFIX))
    whole = pyarrow.schema([*schema, *added], metadata=schema.metadata)
    with replacing(path) as file, writer.ParquetWriter(file, whole) as opened:
        for group in groups:
            held = arrow_files.read_row_group(group.file, group.number, tuple(schema.names))
            part = rows[group.start : group.start + group.rows]
            cells = [{PREFIX + name: (row or {}).get(name) for name in ADDED} for row in part]
            new = pyarrow.Table.from_pylist(cells, schema=added)
            for name in added.names:
                held = held.append_column(added.field(name), new.column(name))
            opened.write_table(held.cast(whole))


def is_sheet(source: Source, path: Path, head: bytes) -> bool:
    """Return whether jostle wrote a table, to which nobody has added a column."""
    header: list[str] = getattr(source, "header", list)()
    extended = [*header, *(PREFIX + name for name in ADDED)]
    if head.startswith(b"PAR1"):
        shape = arrow_files.import_parquet().read_schema(path)
        about = shape.metadata or {}
        features = json.loads(about.get(b"huggingface", b"{}")).get("info", {}).get("features")
        known = (list(COLUMNS), list(OLD_COLUMNS), list(features or ()))
        return shape.names == extended or (about.get(b"format") == FORMAT.encode() and shape.names in known)
    if has_columns(head, COLUMNS) or has_columns(head, OLD_COLUMNS):
        return True
    with suppress(DataError):
        return bool(header) and CsvFile(path).header() == extended
    return False


def write_huggingface(export: Export, path: Path) -> None:
    """Write labeled examples with their contents: a Parquet file, or a folder that `load_from_disk` opens."""
    parquet = arrow_files.import_parquet()
    import pyarrow

    shown = shown_features(export)
    words, number = ({"dtype": name, "_type": "Value"} for name in ("string", "float64"))
    classes: Row = {"names": export.session.classes(), "_type": "ClassLabel"}
    answer = PREFIX + "answer" if "label" in shown else "label"
    said = {"one": classes, "several": {"feature": classes, "_type": "List"}, "number": number}
    extra = {PREFIX + name: number if name == "confidence" else words for name in COLUMNS if name != "answer"}
    features: dict[str, Row] = {**shown, answer: said[export.session.kind], **extra}
    schema = pyarrow.schema(
        [(name, arrow_type(feature)) for name, feature in features.items()],
        metadata={"huggingface": json.dumps({"info": {"features": features}}), "format": FORMAT},
    )
    folder = path.suffix.lower() != ".parquet"
    with ExitStack() as open_files:
        file = open_files.enter_context(replacing(path / DATA_FILE if folder else path))
        make = pyarrow.ipc.new_stream if folder else parquet.ParquetWriter
        writer = open_files.enter_context(make(file, schema))
        rows = data_rows(export, features, answer)
        while part := list(islice(rows, 100)):  # examples in memory at once
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))
    if folder:
        write_state(path, features)


def write_state(folder: Path, features: Row) -> None:
    """Write the two files beside the data of a saved data set."""
    about = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    write_whole(folder / "dataset_info.json", json.dumps(about, indent=2))
    state: Row = {
        "_data_files": [{"filename": DATA_FILE}],
        "_fingerprint": FORMAT.encode().hex()[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    write_whole(folder / "state.json", json.dumps(state, indent=2))  # last: without it there is no data set


def shown_features(export: Export) -> dict[str, Row]:
    """Return the columns of the contents in Hugging Face's words: pictures, texts, or the fields of rows."""
    if export.session.source.kind == "image":
        return {"image": {"_type": "Image"}}
    kinds: dict[str, set[type]] = {}
    for _, content in export.contents():
        for name, cell in shown_cells(content, export).items():
            kinds.setdefault(name, set()).update([] if cell is None else [type(cell)])
    names = {bool: "bool", int: "int64", float: "float64"}
    features = {}
    for name, found in kinds.items():
        [kind] = {float} if found == {int, float} else found if len(found) == 1 else {str}
        features[name] = {"dtype": names.get(kind, "string"), "_type": "Value"}
    return features


def arrow_type(feature: Row) -> Any:
    """Return the type of a column in Arrow."""
    import pyarrow

    if feature["_type"] == "Image":
        return pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    if feature["_type"] == "List":
        return pyarrow.list_(arrow_type(feature["feature"]))
    return pyarrow.type_for_alias(feature.get("dtype", "int64"))  # a class is a number


def shown_cells(content: Content, export: Export) -> Row:
    """Return the cells of a content by column."""
    if content.kind == "image":
        return {"image": {"bytes": content.data, "path": content.name}}
    if content.kind == "row":
        return dict(content.fields or {})
    usual = ("text",) if len(content.texts) == 1 else ("text1", "text2")
    return dict(zip(getattr(export.session.source, "texts", usual), content.texts, strict=True))


def data_rows(export: Export, features: Mapping[str, Row], answer: str) -> Iterator[Row]:
    """Yield the rows of the data set."""
    numbers = {name: number for number, name in enumerate(export.session.classes())}
    words = {name for name, feature in features.items() if feature.get("dtype") == "string"}
    for each, content in export.contents():
        chosen = [numbers[name] for name in answer_words(each["answer"])]
        said = {"one": chosen[:1] and chosen[0], "several": chosen, "number": each["answer"]}
        shown = {
            name: str(cell) if name in words and cell is not None else cell
            for name, cell in shown_cells(content, export).items()
        }
        extra = {PREFIX + name: cell for name, cell in flat_row(each).items() if name != "answer"}
        yield {**shown, answer: said[export.session.kind], **extra}
