"""Tables as sources: a row of a csv or Parquet file is an example, shown as its texts, its fields or its picture.

A folder that Hugging Face's `save_to_disk` wrote is read like a Parquet file.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image

from jostle.datasets.arrow_files import (
    ParquetColumns,
    find_row_groups,
    is_picture_column,
    picture_bytes,
    picture_paths,
)
from jostle.datasets.table_files import HOLDS_TEXTS, Cell, ParquetFile, Row, encode_table, open_table
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


@dataclass
class Listing:
    """Rows of a file at a certain stamp."""

    stamp: str = ""
    rows: dict[str, int] = field(default_factory=dict)  # name -> number of the row
    keys: dict[str, str] = field(default_factory=dict)  # name -> key of its content


class Table:
    """File of rows; it is read again when its size or time has changed."""

    def __init__(
        self, path: Path, texts: tuple[str, ...], hide: tuple[str, ...], ask_for_texts: bool = False
    ) -> None:
        self.path, self.hide, self.file = path, hide, open_table(path)
        self._lock = threading.Lock()
        self._listing = Listing()
        header = self.file.header()
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
        if texts and not found.names:
            raise SourceError(
                f"{self.path.name}: the column {texts[0]} holds texts: pass --text {texts[0]} to label them"
            )
        if texts and ask:
            raise SourceError(
                f"{self.path.name}: the column {texts[0]} holds texts: pass --text {texts[0]} to label them, "
                f"--hide {texts[0]} to leave them out, or --text {NO_TEXT} to label rows that show all columns"
            )
        return (
            f"{texts[0]} holds texts, which rows are not learned from: pass --text {texts[0]}"
            if texts
            else ""
        )

    def header(self) -> list[str]:
        """Return the names of the columns."""
        return self.file.header()

    def shown(self) -> list[str]:
        """Return the names of the columns that people see."""
        return list(self.texts) or [
            name for name in self.header() if name not in self.hide and name != self.id
        ]

    def places(self) -> dict[str, str]:
        """Return the key of every row, "" for an empty text; a row that moves keeps its key, and its answers."""
        return dict(self.listing().keys)

    def listing(self) -> Listing:
        """Return the rows as the file is now."""
        with self._lock:
            stamp = self.file.stamp()
            if self._listing.stamp != stamp:
                self._listing = self._listed(stamp)
            return self._listing

    def _listed(self, stamp: str) -> Listing:
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
        often = Counter(ids)
        names = [
            identity if identity and often[identity] == 1 else f"row {number + 1}"
            for number, identity in enumerate(ids)
        ]
        return Listing(stamp, {name: i for i, name in enumerate(names)}, dict(zip(names, keys, strict=True)))

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
        listing = self.listing()
        return self.content(name, self.file.row(listing.rows[name]))

    def contents(self) -> Iterator[Content]:
        """Yield every row, in one pass over the file."""
        names = list(self.listing().rows)
        yield from (self.content(name, row) for name, row in zip(names, self.file.rows(), strict=True))

    def column(self, column: str) -> dict[str, Cell]:
        """Return one column's cells by row."""
        header = self.file.header()
        if column not in header:
            raise unknown(f"column of {self.path.name}", column, header)
        return dict(zip(self.listing().rows, self.file.column(column), strict=True))


class PictureTable:
    """Column of pictures, each named by its path if that is unique, else by its row."""

    kind: ContentKind = "image"

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.table, self.shown = path, ParquetFile(path), column
        self._lock = threading.Lock()
        self._list = lru_cache(maxsize=1)(self._listed)

    def header(self) -> list[str]:
        """Return the names of the columns."""
        return self.table.header()

    def _listed(self, stamp: str) -> tuple[ParquetColumns, dict[str, int]]:
        columns = ParquetColumns(find_row_groups(str(self.path))[0], (self.shown,))
        paths = [printable(each or "") for each in picture_paths(columns.groups, self.shown)]
        often = Counter(paths)
        names = [
            path if path and often[path] == 1 else f"row {place}" for place, path in enumerate(paths, start=1)
        ]
        return columns, {name: place for place, name in enumerate(names)}

    def listing(self) -> tuple[ParquetColumns, dict[str, int]]:
        """Return the column, and positions by name, as the files are now."""
        with self._lock:
            return self._list(self.table.stamp())

    def places(self) -> dict[str, str]:
        """Return a stamp of every picture, which changes with the files."""
        stamp = self.table.stamp()
        return {name: f"{stamp} {place}" for name, place in self.listing()[1].items()}

    def read(self, name: str) -> Content:
        """Read the bytes of one picture."""
        columns, positions = self.listing()
        position = positions[name]
        ((value,),) = columns.values([position])
        found = picture_bytes(value, Path(columns.group_at(position).file).parent)
        try:
            data = found.read_bytes() if isinstance(found, Path) else found
        except OSError as reason:
            raise UnreadableError(f"{name} cannot be read: {reason.strerror or reason}") from reason
        if data is None:
            raise UnreadableError(f"{name} has neither bytes nor the path of a file beside it")
        return Content("image", name, data)

    def contents(self) -> Iterator[Content]:
        """Yield every picture that can be read."""
        for name in self.listing()[1]:
            with suppress(UnreadableError):
                yield self.read(name)

    def column(self, column: str) -> dict[str, Any]:
        """Return another column's cells by picture; class numbers of Hugging Face as names."""
        if column not in self.header():
            raise unknown(f"column of {self.path.name}", column, self.header())
        return dict(zip(self.listing()[1], self.table.column(column), strict=True))


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
