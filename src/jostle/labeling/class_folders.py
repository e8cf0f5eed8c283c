"""Labels as folders: the pictures of each class in a folder of its own."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from jostle.labeling.contents import digest
from jostle.labeling.label_files import export_rows, read_contents

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MAX_FILE_NAME = 200  # letters; systems take 255

Means = Literal["link", "copy"]


def export_folders(session: Session, folder: Path, means: Means = "link", with_audit: bool = False) -> int:
    """Make a folder of pictures for each class, as links to the originals or as copies; return their number.

    The folder must be new or empty. A picture with several classes is in each of their folders. Names of audited
    pictures begin with `audit__`.
    """
    if session.source.kind != "image" or session.kind == "number":
        raise ValueError("folders by class are for pictures with classes: export a .csv, .parquet or .json")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: name a new folder")
    count = 0
    for each, content in read_contents(session, export_rows(session, False, with_audit)):
        mark = "audit__" if each["purpose"] == "audit" else ""
        named = [each["answer"]] if session.kind == "one" else each["answer"]
        for name in named:
            target = (
                folder
                / safe_file_name(name)
                / safe_file_name(mark + PurePath(content.name).as_posix().replace("/", "__"))
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_picture(session.source, content.name, content.data, target, means)
            count += 1
    return count


def _write_picture(source: Any, name: str, data: bytes, target: Path, means: Means) -> None:
    file_of = getattr(source, "file", None)
    if file_of is None:
        target.with_suffix(target.suffix or ".png").write_bytes(data)  # pictures that are in no file
    elif means == "link":
        target.symlink_to(file_of(name))
    else:
        shutil.copyfile(file_of(name), target)


def safe_file_name(name: str) -> str:
    """Return a name that is one folder or file on every system; a long one ends with a digest."""
    clean = quote(name, safe=" ()[]{},;=+@!#$&'~^").rstrip(" .")
    if len(clean) > MAX_FILE_NAME:
        clean = f"{clean[: MAX_FILE_NAME // 2]}-{digest(name.encode())}{PurePath(clean).suffix[-8:]}"
    return f"%2E{clean[1:]}" if clean.startswith(".") else clean or "%20"
