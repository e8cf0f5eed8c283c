"""Labels with their examples as Hugging Face stores data sets: a Parquet file, or a folder as `save_to_disk` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from jostle.datasets.arrow_files import import_parquet
from jostle.labeling.contents import Content
from jostle.labeling.formats.rows import COLUMNS, FORMAT, Export, Row, answer_words, flat_row
from jostle.labeling.formats.sheets import PREFIX
from jostle.utils.files import replacing, write_whole

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
