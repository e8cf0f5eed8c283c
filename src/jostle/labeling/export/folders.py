"""Labels as folders of pictures: one for each class, Hugging Face's `imagefolder`, and FiftyOne's layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from jostle.labeling.export.json_files import dump, load
from jostle.labeling.export.tables import COLUMNS, Export, Row, answer_words, csv_cells, extra_cells, read_csv
from jostle.labeling.sources.contents import Content, SourceError, digest
from jostle.utils.files import is_image, sheet, write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MAX_FILE_NAME = 200  # letters; systems take 255
AUDIT_MARK = "audit__"  # begins the names of audited pictures in folders by class
METADATA = ("metadata.csv", "metadata.jsonl")


def write_class_folders(export: Export, folder: Path) -> None:
    """Make a folder of pictures for each class; a picture with several classes is in each of their folders."""
    for each, content, file in named_pictures(export, AUDIT_MARK):
        for name in answer_words(each["answer"]):
            write_picture(export, content, folder / safe_file_name(name) / file)


def read_class_folders(folder: Path, session: Session) -> list[Row]:
    """Return a row for each different picture in folders by class; it is found again by its content or its name."""
    classes = {safe_file_name(name): name for name in session.classes()}
    rows: dict[str, Row] = {}
    for path in pictures(folder):
        if path.parent != folder:
            key = digest(path.read_bytes())
            audited = path.name.startswith(AUDIT_MARK)
            first = {"content": key, "name": path.name.removeprefix(AUDIT_MARK), "answer": []}
            row = rows.setdefault(key, {**first, "purpose": "audit" if audited else None})
            name = path.relative_to(folder).parts[0]
            row["answer"].append(classes.get(name, unquote(name)))
    if not rows:
        raise SourceError(
            f"{folder} holds no pictures in folders of classes, such as {folder.name}/cat/1.jpg"
        )
    return list(rows.values())


def write_imagefolder(export: Export, folder: Path) -> None:
    """Write pictures, and their labels to `metadata.csv`, as Hugging Face's `imagefolder` reads them."""
    lines: list[list[Any]] = [["file_name", *("label" if name == "answer" else name for name in COLUMNS)]]
    for each, content, file in named_pictures(export):
        write_picture(export, content, folder / file)
        lines.append([file, *csv_cells(each)])
    write_whole(folder / METADATA[0], sheet(lines))


def read_imagefolder(folder: Path, session: Session) -> list[Row]:
    """Read `metadata.csv` or `metadata.jsonl`; pictures are found again by their content or their name."""
    path = next(folder / name for name in METADATA if (folder / name).is_file())
    if path.suffix == ".csv":
        rows = read_csv(path, session)
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows or "file_name" not in rows[0]:
        raise SourceError(
            f"{path} must have a column file_name; it has {', '.join(rows[0]) if rows else 'no rows'}"
        )
    found = []
    for row in rows:
        file = PurePath(row["file_name"])
        inside = not file.is_absolute() and ".." not in file.parts and (folder / file).is_file()
        content = {"content": digest((folder / file).read_bytes())} if inside else {}
        found.append({**row, "name": row.get("name") or row["file_name"], **content})
    return found


def write_fiftyone(export: Export, folder: Path) -> None:
    """Write `data/` and `labels.json`, which FiftyOne imports as a FiftyOneImageClassificationDataset.

    The attributes of a label hold the other columns. Examples of which people said that no class fits have no label;
    their columns are in `none`.
    """
    classes, labels, none = export.session.classes(), Row(), Row()
    for each, content, file in named_pictures(export):
        write_picture(export, content, folder / "data" / file)
        name, cells = PurePath(file).stem, extra_cells(each)
        sure = {} if each["confidence"] is None else {"confidence": each["confidence"]}
        about = {**sure, "attributes": cells}
        said = [{"label": classes.index(label), **about} for label in answer_words(each["answer"])]
        labels[name] = said[0] if isinstance(each["answer"], str) else said or None
        if not said:
            none[name] = cells
    dump(folder / "labels.json", {"classes": classes, "labels": labels, "none": none})


def read_fiftyone(folder: Path, session: Session) -> list[Row]:
    """Read `labels.json`; pictures in `data/` are found again by their content or their name."""
    held = load(folder / "labels.json")
    labels = held.get("labels") if isinstance(held, dict) else None
    if not isinstance(labels, dict):
        raise SourceError(
            f'{folder / "labels.json"} must hold {{"classes": [...], "labels": {{"name": 0}}}} as FiftyOne writes it'
        )
    classes, none, data = held.get("classes") or [], held.get("none") or {}, folder / "data"
    files = {file.relative_to(data).with_suffix("").as_posix(): file for file in pictures(data)}
    rows: list[Row] = []
    for name, said in labels.items():
        listed = [] if said is None else said if isinstance(said, list) else [said]
        parts = [each if isinstance(each, dict) else {"label": each} for each in listed]
        if not parts and name not in none:
            continue
        chosen = [each["label"] for each in parts]
        words = [classes[each] if isinstance(each, int) else each for each in chosen]
        cells = parts[0].get("attributes") or {} if parts else none[name]
        file = files.get(name)
        found = {"name": name} if file is None else {"name": file.name, "content": digest(file.read_bytes())}
        rows.append({**found, **cells, "answer": words})
    return rows


def pictures(folder: Path) -> Iterator[Path]:
    """Yield the pictures in a folder and those in it, in the order of their names."""
    held = sorted(folder.rglob("*"))
    return (path for path in held if is_image(path.relative_to(folder)) and path.is_file())


def named_pictures(export: Export, audit_mark: str = "") -> Iterator[tuple[Row, Content, str]]:
    """Yield rows, their pictures, and names of files in one folder.

    No two names are alike up to their endings: a name that is taken is followed by the beginning of the picture's key.
    """
    used: set[str] = set()
    for each, content in export.contents():
        mark = audit_mark if each["purpose"] == "audit" else ""
        path = PurePath(safe_file_name(mark + PurePath(content.name).as_posix().replace("/", "__")))
        stem = path.name.removesuffix(path.suffix)
        if stem.casefold() in used:
            stem = f"{stem}-{content.key[:12]}"
        used.add(stem.casefold())
        yield each, content, stem + (path.suffix or ".png")  # of pictures that are in no file


def write_picture(export: Export, content: Content, target: Path) -> None:
    """Write a picture: a link to its file or a copy of it, or its bytes if it lies in no file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    find_file = getattr(export.session.source, "file", None)
    if find_file is None:
        target.write_bytes(content.data)
    elif export.means == "link":
        target.symlink_to(find_file(content.name))
    else:
        shutil.copyfile(find_file(content.name), target)


def safe_file_name(name: str) -> str:
    """Return a name that is one folder or file on every system; a long one ends with a digest."""
    clean = quote(name, safe=" ()[]{},;=+@!#$&'~^").rstrip(" .")
    if len(clean) > MAX_FILE_NAME:
        clean = f"{clean[: MAX_FILE_NAME // 2]}-{digest(name.encode())}{PurePath(clean).suffix[-8:]}"
    return f"%2E{clean[1:]}" if clean.startswith(".") else clean or "%20"
