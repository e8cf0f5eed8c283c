"""What a source is, and tables as sources.

A row of a csv or Parquet file is an example, shown as its texts, its fields or its picture.
A folder that Hugging Face's `save_to_disk` wrote is read like a Parquet file.
"""

from __future__ import annotations

import io
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from jostle.datasets.arrow_files import (
    ParquetColumns,
    find_row_groups,
    is_picture_column,
    picture_bytes,
    picture_paths,
)
from jostle.datasets.table_files import (
    HOLDS_TEXTS,
    Cell,
    ParquetFile,
    Row,
    TableFile,
    encode_table,
    open_table,
)
from jostle.labeling.sources.contents import (
    PICTURE_ERRORS,
    Content,
    ContentKind,
    SourceError,
    UnreadableError,
)
from jostle.utils.names import printable, unknown

DEFAULT_TEXT_COLUMNS = (("text",), ("text1", "text2"))
NO_TEXT = "none"  # in place of a column's name: rows are no texts, whatever they hold
ROWS_LOOKED_AT = 1000  # rows that tell whether a table has anything to learn from


class Source(Protocol):
    """Examples by the names of their places."""

    kind: ContentKind

    def places(self) -> Mapping[str, str]:
        """Return the current stamp of every place by its name."""

    def read(self, name: str) -> Content:
        """Read a place; raise KeyError if there is none, UnreadableError if it cannot be shown."""

    def contents(self) -> Iterator[Content]:
        """Yield all contents that can be read, in order."""
        for name in self.places():
            with suppress(KeyError, UnreadableError):
                yield self.read(name)

    def column(self, column: str) -> Mapping[str, Cell]:
        """Return a column that is not shown, by place: existing labels, or a simulation's truth."""


class TableSource(Source):
    """Source of rows, which are listed again when the size or time of their file has changed."""

    def __init__(self, file: TableFile, name: str) -> None:
        self.file, self.name = file, name
        self._lock = threading.Lock()
        self._list = lru_cache(maxsize=1)(self._listed)

    @abstractmethod
    def _listed(self, stamp: str) -> tuple[dict[str, int], Any]:
        """List the rows: their numbers by name, and what a subclass keeps beside them."""

    def listing(self) -> tuple[dict[str, int], Any]:
        """Return the rows as the file is now."""
        with self._lock:
            return self._list(self.file.stamp())

    def header(self) -> list[str]:
        """Return the names of the columns."""
        return self.file.header()

    def column(self, column: str) -> dict[str, Cell]:
        """Return one column's cells by row; class numbers of Hugging Face as names."""
        if column not in self.header():
            raise unknown(f"column of {self.name}", column, self.header())
        return dict(zip(self.listing()[0], self.file.column(column), strict=True))


def number_rows(names: Sequence[str]) -> dict[str, int]:
    """Return rows by the name that each wants; by `row 1` and so on where that is empty or not unique."""
    often = Counter(names)
    return {
        name if name and often[name] == 1 else f"row {number + 1}": number
        for number, name in enumerate(names)
    }


class Table(TableSource):
    """Rows of a file, each shown as its texts or its fields."""

    def __init__(
        self, path: Path, texts: tuple[str, ...], hide: tuple[str, ...], ask_for_texts: bool = False
    ) -> None:
        super().__init__(open_table(path), path.name)
        self.path, self.hide, header = path, hide, self.header()
        rows_only = texts == (NO_TEXT,) and NO_TEXT not in header
        texts = () if rows_only else texts
        for name in (*texts, *hide):
            if name not in header:
                raise unknown(f"column of {path.name}", name, header)
        if len(texts) > 2:
            raise SourceError(f"a text is one column or a pair; got {', '.join(texts)}")
        usual = next((names for names in DEFAULT_TEXT_COLUMNS if set(names) <= set(header) - set(hide)), ())
        self.texts = texts or (() if rows_only else usual)
        self.kind: ContentKind = "text" if self.texts else "row"
        self.id = next((name for name in header if name.lower() == "id"), None)
        self.note = ""  # what a user should know of the columns
        if self.kind == "row":
            self.note = self._note_texts(ask_for_texts and not rows_only)

    def _note_texts(self, ask: bool) -> str:
        """Return a note on a column of texts that rows are not learned from.

        Raises:
            SourceError: `ask` is set, or there is nothing else to learn from, so that `--text` must name the column.
        """
        rows = [self.content("", row).fields or {} for row in islice(self.file.rows(), ROWS_LOOKED_AT)]
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        found = encode_table(columns, fill_gaps=True)
        texts = [name for name, reason in found.no_categories.items() if reason == HOLDS_TEXTS]
        if not texts:
            return ""
        use = f"{texts[0]} holds texts: pass --text {texts[0]} to label them"
        if not found.names:
            raise SourceError(f"{self.name}: the column {use}")
        if ask:
            raise SourceError(
                f"{self.name}: the column {use}, --hide {texts[0]} to leave them out, or --text {NO_TEXT} to label "
                "rows that show all columns"
            )
        return f"{texts[0]} holds texts, which rows are not learned from: pass --text {texts[0]}"

    def shown(self) -> list[str]:
        """Return the names of the columns that people see."""
        return list(self.texts) or [
            name for name in self.header() if name not in self.hide and name != self.id
        ]

    def places(self) -> dict[str, str]:
        """Return the key of every row, "" for an empty text; a row that moves keeps its key, and its answers."""
        return dict(zip(*self.listing(), strict=True))

    def _listed(self, stamp: str) -> tuple[dict[str, int], list[str]]:
        """Return the numbers of rows by name, and their keys."""
        keys, ids = [], []
        for row in self.file.rows():
            content = self.content("", row)
            empty = content.kind == "text" and not any(text.strip() for text in content.texts)
            keys.append("" if empty else content.key)
            ids.append("" if self.id is None else str(row[self.id]))
        if not keys:
            raise SourceError(f"{self.path} has no rows")
        if not any(keys):
            raise SourceError(f"{self.path}: the column {' and '.join(self.texts)} is empty in every row")
        return number_rows(ids), keys

    def content(self, name: str, row: Row) -> Content:
        """Return a row as it is shown: its texts, or all fields but the hidden ones and the id."""
        if self.texts:
            return Content("text", name, texts=tuple(str(row[column] or "") for column in self.texts))
        fields = {
            column: cell for column, cell in row.items() if column not in self.hide and column != self.id
        }
        return Content("row", name, fields=fields)

    def read(self, name: str) -> Content:
        """Read one row."""
        return self.content(name, self.file.row(self.listing()[0][name]))

    def contents(self) -> Iterator[Content]:
        """Yield every row, in one pass over the file."""
        names = list(self.listing()[0])
        yield from (self.content(name, row) for name, row in zip(names, self.file.rows(), strict=True))


class PictureTable(TableSource):
    """Column of pictures, each named by its path if that is unique, else by its row."""

    kind: ContentKind = "image"

    def __init__(self, path: Path, column: str) -> None:
        super().__init__(ParquetFile(path), path.name)
        self.path, self.shown = path, column

    def _listed(self, stamp: str) -> tuple[dict[str, int], ParquetColumns]:
        """Return the numbers of pictures by name, and their column."""
        columns = ParquetColumns(find_row_groups(str(self.path))[0], (self.shown,))
        return number_rows(
            [printable(each or "") for each in picture_paths(columns.groups, self.shown)]
        ), columns

    def places(self) -> dict[str, str]:
        """Return a stamp of every picture, which changes with the files."""
        stamp = self.file.stamp()
        return {name: f"{stamp} {number}" for name, number in self.listing()[0].items()}

    def read(self, name: str) -> Content:
        """Read the bytes of one picture."""
        numbers, columns = self.listing()
        number = numbers[name]
        ((value,),) = columns.values([number])
        found = picture_bytes(value, Path(columns.group_at(number).file).parent)
        try:
            data = found.read_bytes() if isinstance(found, Path) else found
        except OSError as reason:
            raise UnreadableError(f"{name} cannot be read: {reason.strerror or reason}") from reason
        if data is None:
            raise UnreadableError(f"{name} has neither bytes nor the path of a file beside it")
        return Content("image", name, data)


def find_picture_column(path: Path) -> str | None:
    """Return the first column of pictures: Hugging Face's struct, or bytes that begin a picture; None without one."""
    groups, schema = find_row_groups(str(path))
    for name in schema.names:
        if is_picture_column(schema.field(name).type):
            ((value,),) = ParquetColumns(groups, (name,)).values([0])
            if not isinstance(value, bytes):
                return str(name)
            with suppress(*PICTURE_ERRORS), Image.open(io.BytesIO(value)):
                return str(name)
    return None
