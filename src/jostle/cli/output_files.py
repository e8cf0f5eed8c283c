"""Where picks and their page go: checked before the long work, written after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jostle.cli.picks import as_csv, is_picks
from jostle.core import Query
from jostle.datasets import Data
from jostle.utils.files import check_target, is_image, is_same, write_whole
from jostle.utils.settings import name_and_settings
from jostle.utils.user_files import is_own

if TYPE_CHECKING:
    from jostle.experiments.report.gallery import Answer


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
