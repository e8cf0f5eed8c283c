"""Files that jostle pick writes: the csv of picks and a gallery; files of others are not overwritten."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jostle.core import Query
from jostle.datasets import Data
from jostle.utils.files import check_target, has_columns, is_image, is_same, sheet, unhidden, write_whole
from jostle.utils.settings import name_and_settings
from jostle.utils.user_files import is_own

if TYPE_CHECKING:
    from jostle.core import Query
    from jostle.datasets import Data
    from jostle.experiments.report.gallery import Answer

COLUMNS = ("name", "position", "order", "score")


def as_csv(query: Query, data: Data) -> str:
    """The picks in their order: file name or row id, position in the pool, order, score."""
    pairs = zip(query.indices.tolist(), query.scores.tolist(), strict=True)
    rows = [(data.names(place), place, order, score) for order, (place, score) in enumerate(pairs)]
    return sheet([COLUMNS, *rows])


def is_picks(head: bytes) -> bool:
    """Whether a file begins as `as_csv` does."""
    return has_columns(head, COLUMNS)


def names_in(path: Path) -> list[str]:
    """The names of earlier picks, or their positions where the csv has no names."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path} cannot be read, expected the csv of earlier picks: {reason}") from None
    column = next((name for name in COLUMNS[:2] if rows and name in rows[0]), None)
    if rows and column is None:
        raise ValueError(f"{path} has no column name or position, expected the csv of earlier picks")
    return [unhidden(row[column] or "") for row in rows if column is not None]


@dataclass(frozen=True)
class Places:
    """The files of one call of `jostle pick`."""

    out: Path  # - is standard output
    gallery: Path | None
    overwrite: bool

    def check(self, specs: Mapping[str, str | None], files: Sequence[Path]) -> None:
        """Refuse places that hold what is not ours, that this very command reads, or that are one."""
        read = {option: source_of(spec) for option, spec in specs.items() if spec is not None}
        sources = [*((option, path) for option, path in read.items() if path is not None)]
        sources += [("--exclude", path) for path in files]
        for option, path, is_ours in self.files():
            for other, source in sources:
                if is_read(path, source):
                    raise ValueError(f"{option} {path} is what {other} reads: name another file")
            check_target(path, is_ours, self.overwrite)
        if self.gallery is not None and self.out.resolve() == self.gallery.resolve():
            raise ValueError(f"--out and --gallery are one file, {self.out}: name two")

    def files(self) -> Iterator[tuple[str, Path, Callable[[bytes], bool]]]:
        """Each file that is to be written: its option, its path, and how one of ours is known."""
        if str(self.out) != "-":
            yield "--out", self.out, is_picks
        if self.gallery is not None:
            from jostle.experiments.report.gallery import is_gallery  # here, because it takes its time

            yield "--gallery", self.gallery, is_gallery

    def write_picks(self, query: Query, data: Data) -> None:
        """The csv, or the same on standard output."""
        text = as_csv(query, data)
        if str(self.out) == "-":
            print(text, end="")
            return
        try:
            check_target(self.out, is_picks, self.overwrite)  # somebody may have written there meanwhile
            write_whole(self.out, text)
        except OSError as reason:
            print(text, end="")
            raise OSError(f"{reason}; the picks went to standard output, so that none is lost") from reason

    def write_gallery(
        self, query: Query, data: Data, facts: Mapping[str, str], answers: Sequence[tuple[Answer, ...]]
    ) -> None:
        """The page, where one was asked for."""
        from jostle.experiments.report.gallery import Gallery, cards, is_gallery, render

        if self.gallery is not None:
            page = render(Gallery(data.name, facts, cards(query, data, answers)))
            check_target(self.gallery, is_gallery, self.overwrite)
            write_whole(self.gallery, page)


def is_read(path: Path, source: Path) -> bool:
    """Whether a file is a source, or one of the examples in a folder that is."""
    inside = path.exists() and source.resolve() in path.resolve().parents
    return is_same(path, source) or (inside and (is_image(path) or path.suffix.lower() == ".parquet"))


def source_of(spec: str) -> Path | None:
    """The file or folder that a spec reads; None for a name of the registry."""
    name, _ = name_and_settings(spec)
    if is_own(name):
        return Path(name.rpartition(":")[0]).expanduser()
    scheme, colon, path = name.partition(":")
    return Path(path).expanduser() if colon and scheme in ("folder", "csv", "parquet") else None
