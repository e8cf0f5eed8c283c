"""Files written whole or not at all, and never over what is not ours; and which of them are images."""

import csv
import io
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO

from jostle.utils.names import printable

IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
HEAD = 4096  # bytes of a file by which we know it for our own


def is_image(path: PurePath) -> bool:
    """Whether the name is that of an image; files that a desktop hides are none."""
    return path.suffix.lower() in IMAGES and not is_hidden(path.name) and "__MACOSX" not in path.parts


def is_hidden(name: str) -> bool:
    """Whether a desktop hides files and folders of this name."""
    return name.startswith(".")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, whatever happens in between; text becomes UTF-8."""
    with replacing(path) as file:
        file.write(printable(content).encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path`, and its permissions, when the block ends well.

    A link at `path` is itself replaced; what it points to stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part")  # nobody else's: other threads write this path too
    try:
        with part.open("xb") as file:  # x: never through a link, never into what is there
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.is_file() and not path.is_symlink():
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_target(
    path: Path,
    is_ours: Callable[[bytes], bool],
    overwrite: bool = False,
    advice: str = "name another file, or pass overwrite=True",
) -> None:
    """Refuse to write where something lies that is not a file of our own making, told by its first bytes.

    Call it before the long work as well as before writing. An empty file is nobody's; what is no file at all
    (a folder, a device) is refused even with `overwrite`.
    """
    folder = existing_folder(path.parent)
    there = _is_there(path)
    if there and not (path.is_file() or path.is_symlink()):
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise FileExistsError(f"cannot write {path}: it is {what}; name a file")
    if there and not overwrite:
        _check_ours(path, is_ours, advice)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"cannot write {path}: no permission to write into {folder}")


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file or folder that exists."""
    return path.exists() and other.exists() and path.samefile(other)


def existing_folder(path: Path) -> Path:
    """The folder itself, or the nearest above it that exists; a file in the way is an error."""
    there = next(each for each in (path.absolute(), *path.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        raise NotADirectoryError(f"cannot write into {path}: {there} is not a folder")
    return there


def _is_there(path: Path) -> bool:
    """Whether something has this name; a name that nothing can have, being too long, is an error now."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _check_ours(path: Path, is_ours: Callable[[bytes], bool], advice: str) -> None:
    if path.is_symlink():
        raise FileExistsError(f"cannot write {path}: it is a link to {path.readlink()}; {advice}")
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head and not is_ours(head):
        raise FileExistsError(f"{path} exists and is not of jostle's making, so it is left alone: {advice}")


FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what a spreadsheet would reckon, or what hides it already
HIDDEN = re.compile(r"'+[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|nan")


def sheet(rows: Iterable[Sequence[object]]) -> str:
    """Rows as csv; an apostrophe stands before what would be a formula, and numbers stay numbers."""
    return "".join(_line([hidden(str(cell)) for cell in row]) for row in rows)


def hidden(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def unhidden(cell: str) -> str:
    """The cell that `hidden` was given."""
    return cell[1:] if HIDDEN.match(cell) else cell


def has_columns(head: bytes, columns: Sequence[str]) -> bool:
    """Whether a file begins with the names of these columns and of no other: a column more is somebody's work."""
    return head.splitlines()[:1] == [",".join(columns).encode()]


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)  # quotes a carriage return only where lines end with one
    return text.getvalue().removesuffix("\r\n") + "\n"
