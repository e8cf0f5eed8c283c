"""Pictures in a column of Parquet files or of a saved data set, as Hugging Face stores them."""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
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
from jostle.datasets.table_files import ParquetFile
from jostle.labeling.contents import PICTURE_ERRORS, Content, ContentKind, UnreadableError
from jostle.utils.names import printable, unknown


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
