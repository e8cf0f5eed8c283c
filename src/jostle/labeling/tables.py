"""Tables as sources: a row of a csv or Parquet file is an example, shown as its texts or as its fields."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from jostle.datasets.table_encoding import HOLDS_TEXTS, encode_table
from jostle.datasets.table_files import Cell, Row, open_table
from jostle.labeling.contents import Content, ContentKind, SourceError
from jostle.utils.names import unknown

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
