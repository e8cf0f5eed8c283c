"""Formats of labels: each with a writer and a reader, chosen by the ending of a name or by `--format`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jostle.datasets.arrow_files import holds_arrow
from jostle.labeling.export import folders, json_files, sheets
from jostle.labeling.export.rows import Export, Row
from jostle.labeling.sources.contents import SourceError
from jostle.utils.names import unknown

if TYPE_CHECKING:
    from jostle.labeling.session import Session


@dataclass(frozen=True)
class Format:
    """One way to write labels, and to read them again."""

    write: Callable[[Export, Path], None]
    read: Callable[[Path, Session], list[Row]]
    endings: tuple[str, ...]
    """Endings of a file's name; "" for a folder."""
    is_ours: Callable[[Export, Path, bytes], bool] = lambda export, path, head: False
    """Whether jostle wrote a file, which it may then write over."""
    pictures: bool = False
    """Whether it is for pictures alone."""
    numbers: bool = True
    """Whether it can hold numbers as answers."""
    predictions: bool = True
    """Whether it says which answers are a model's."""

    def check(self, name: str, session: Session, path: Path) -> None:
        """Raise ValueError if this format cannot hold the labels of a project, or a path does not end as it must."""
        if (self.pictures and session.source.kind != "image") or (
            not self.numbers and session.kind == "number"
        ):
            needs = "pictures with classes" if not self.numbers else "pictures"
            asked = f"{session.source.kind}s with {'numbers' if session.kind == 'number' else 'classes'}"
            raise ValueError(
                f"the format {name} is for {needs}; this project has {asked}: export a .csv or .json"
            )
        if path.suffix.lower() not in self.endings:
            ends = " or ".join(ending or "a folder, without an ending" for ending in self.endings)
            raise ValueError(f"the format {name} is written to {ends}; got {path.name}")


FORMATS = {
    "csv": Format(sheets.write_csv, sheets.read_csv, (".csv",), sheets.is_sheet),
    "parquet": Format(sheets.write_parquet, sheets.read_parquet, (".parquet",), sheets.is_sheet),
    "json": Format(json_files.write_json, json_files.read_json, (".json",), json_files.is_json_export),
    "table": Format(sheets.write_table, sheets.read_table, (".csv", ".parquet"), sheets.is_sheet),
    "huggingface": Format(
        sheets.write_huggingface, sheets.read_parquet, (".parquet", ""), sheets.is_sheet
    ),
    "imagefolder": Format(folders.write_imagefolder, folders.read_imagefolder, ("",), pictures=True),
    "folders": Format(
        folders.write_class_folders, folders.read_class_folders, ("",),
        pictures=True, numbers=False, predictions=False,
    ),
    "fiftyone": Format(folders.write_fiftyone, folders.read_fiftyone, ("",), pictures=True, numbers=False),
    "coco": Format(
        json_files.write_coco, json_files.read_json, (".json",), json_files.is_json_export,
        pictures=True, numbers=False,
    ),
    "labelstudio": Format(
        json_files.write_label_studio, json_files.read_json, (".json",), json_files.is_json_export
    ),
}  # fmt: skip
NAMED = ("labelstudio", "coco")  # formats that the end of a name chooses: mine.coco.json


def target_format(path: Path, name: str | None) -> str:
    """Return the name of the format of a file or folder to write."""
    if name is not None:
        return check_name(name)
    suffix = path.suffix.lower()
    if suffix == ".json":
        return next((each for each in NAMED if path.name.lower().endswith(f"{each}.json")), "json")
    found = {".csv": "csv", ".parquet": "parquet", "": "folders"}.get(suffix)
    if found is None:
        raise ValueError(
            f"cannot tell the format of {path.name}: end its name with .csv, .parquet, .json, "
            f"{', '.join(f'{each}.json' for each in NAMED)}, or pass --format: {', '.join(FORMATS)}"
        )
    return found


def source_format(path: Path, name: str | None) -> str:
    """Return the name of the format of a file or folder to read, by what is there."""
    if name is not None:
        return check_name(name)
    if not path.exists():
        raise SourceError(f"{path} does not exist: name a .csv, .parquet or .json of labels, or a folder")
    if path.is_dir():
        if holds_arrow(path):
            return "huggingface"
        if (path / "labels.json").is_file():
            return "fiftyone"
        named = any((path / each).is_file() for each in folders.METADATA)
        return "imagefolder" if named else "folders"
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in ("csv", "parquet", "json"):
        raise SourceError(f"{path.name}: labels are read from .csv, .parquet, .json or a folder")
    return suffix


def check_name(name: str) -> str:
    """Return the name of a format; raise ValueError with the nearest ones if there is none."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return name
