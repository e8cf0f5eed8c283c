"""Labels as JSON: jostle's own with every person's answers, Label Studio's tasks, and COCO's lists."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from PIL import Image
from sqlalchemy import select

from jostle.labeling.answers import AnswerKind
from jostle.labeling.export.label_studio import (
    KEY_FIELD,
    LOCAL_FILES,
    Tags,
    make_prediction,
    make_result,
    make_task,
    read_answer,
)
from jostle.labeling.export.rows import FORMAT, Export, Row, answer_words, extra_cells
from jostle.labeling.sources.contents import Content, SourceError
from jostle.labeling.store.remarks import Remark, current_remarks, remark_cells
from jostle.labeling.store.schema import suggestions_shown
from jostle.utils.files import write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session

EXPECTED = (
    'expected a list such as [{"name": "a.jpg", "answer": "cat"}], an export of jostle, of Label Studio (JSON) '
    "or of FiftyOne (labels.json), or COCO's images, annotations and categories"
)
COCO_DESCRIPTION = "labels of jostle"


def write_json(export: Export, path: Path) -> None:
    """Write all labels with every person's answers."""
    session = export.session
    classes = session.book.classes()
    everybody: dict[str, list[Row]] = {}
    shown = {(row.key, row.person) for row in session.store.rows(select(suggestions_shown)) if row.source}
    for one in session.snapshot().answers:
        words = None if one.value is None else session.type.decode(one.value, classes)
        told = {"person": one.person, "act": one.act, "answer": words, "seconds": one.seconds, "at": one.at}
        everybody.setdefault(one.key, []).append({**told, "suggested": (one.key, one.person) in shown})
    held = [{**each, "said": everybody.get(each["key"], [])} for each in export.rows]
    head = {"format": FORMAT, "version": 1, "kind": session.kind, "classes": session.classes()}
    remarks = [asdict(each) for each in current_remarks(session.store)]  # also on what nobody answered
    dump(path, {**head, "remarks": remarks, "examples": held})


def dump(path: Path, held: Any) -> None:
    """Write JSON whole or not at all."""
    write_whole(path, json.dumps(held, ensure_ascii=False, indent=1) + "\n")


def load(path: Path) -> Any:
    """Read JSON; raise SourceError if it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as reason:
        why = "it is nested too deeply" if isinstance(reason, RecursionError) else reason
        raise SourceError(f"{path.name} is no JSON that can be read: {why}; {EXPECTED}") from None


def read_json(path: Path, session: Session) -> list[Row]:
    """Read a list of objects, an export of jostle, tasks of Label Studio or COCO's lists, by what the file holds."""
    held = load(path)
    if isinstance(held, dict) and {"images", "annotations"} <= held.keys():
        return coco_rows(path, held)
    rows = held.get("examples") if isinstance(held, dict) else held
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path.name}: {EXPECTED}; got {_describe(held)}")
    if rows and isinstance(rows[0].get("data"), dict):
        return [row for task in rows for row in task_rows(task, session.kind)]
    return rows + (_remarked_rows(held.get("remarks") or [], rows) if isinstance(held, dict) else [])


def _remarked_rows(remarks: Sequence[Row], answered: Sequence[Row]) -> list[Row]:
    """Return rows of examples that have remarks and no answer."""
    found: dict[str, list[Remark]] = defaultdict(list)
    for each in remarks:
        found[each["key"]].append(Remark(**each))
    for row in answered:
        found.pop(row["key"], None)
    return [{"key": key, "answer": None, **remark_cells(each)} for key, each in found.items()]


def _describe(held: Any) -> str:
    if isinstance(held, dict):
        return f"an object with {', '.join(map(repr, list(held)[:5])) or 'nothing in it'}"
    if isinstance(held, list):
        return f"a list that holds {type(next(row for row in held if not isinstance(row, dict))).__name__}"
    return type(held).__name__


def write_label_studio(export: Export, path: Path) -> None:
    """Write tasks for Label Studio: answered ones with an annotation, predicted ones with a prediction."""
    session = export.session
    shown = session.source.kind
    tags = Tags(object=shown, field=shown, kind=session.kind)
    version = f"round-{session.store.last_model()}"
    tasks = []
    for order, (each, content) in enumerate(export.contents()):
        guessed = each["by"] == "model"
        guess = make_prediction(each["answer"], each["confidence"], version, tags) if guessed else None
        made = make_task(content, each["key"], order, tags, guess)
        if not guessed:
            cells = {name: cell for name, cell in extra_cells(each).items() if name != "key"}
            made["data"] |= {f"jostle_{name}": cell for name, cell in cells.items()}
            made["annotations"] = [{"result": [make_result(each["answer"], tags)], "was_cancelled": False}]
        tasks.append(made)
    dump(path, tasks)


def task_rows(task: Mapping[str, Any], kind: AnswerKind) -> list[Row]:
    """Return the last annotation of a task as a row; none if nobody has answered it."""
    data: Mapping[str, Any] = task["data"]
    said = sorted(
        (each for each in task.get("annotations") or [] if not each.get("was_cancelled")),
        key=lambda each: str(each.get("updated_at") or each.get("created_at") or ""),
    )
    answers = [read_answer(each.get("result") or [], kind) for each in said]
    if not answers or answers[-1] is None:
        return []
    row = {name.removeprefix("jostle_"): cell for name, cell in data.items() if name.startswith("jostle_")}
    if KEY_FIELD not in data:
        shown = [value for value in data.values() if isinstance(value, str)]
        row["content"] = Content("text", "", texts=tuple(shown)).key
        row["name"] = unquote(shown[0].removeprefix(LOCAL_FILES)) if shown else ""
    return [{**row, "answer": answers[-1]}]


def write_coco(export: Export, path: Path) -> None:
    """Write COCO's lists: an annotation without a box for each class of a picture."""
    numbers = {name: number for number, name in enumerate(export.session.classes(), start=1)}
    images, annotations = [], list[Row]()
    for number, (each, content) in enumerate(export.contents(), start=1):
        with Image.open(io.BytesIO(content.data)) as picture:
            size = {"width": picture.width, "height": picture.height}
        images.append({"id": number, "file_name": content.name, **size, "jostle": extra_cells(each)})
        for name in answer_words(each["answer"]):
            score = {} if each["confidence"] is None else {"score": each["confidence"]}
            new = {"id": len(annotations) + 1, "image_id": number, "category_id": numbers[name]}
            annotations.append({**new, **score})
    categories = [{"id": number, "name": name, "supercategory": ""} for name, number in numbers.items()]
    head = {"info": {"description": COCO_DESCRIPTION}, "licenses": []}
    dump(path, {**head, "categories": categories, "images": images, "annotations": annotations})


def coco_rows(path: Path, held: Mapping[str, Any]) -> list[Row]:
    """Return a row for each picture of COCO's lists that has a class, or that jostle wrote without one."""
    try:
        names = {each["id"]: str(each["name"]) for each in held.get("categories") or []}
        classes: dict[Any, dict[str, None]] = defaultdict(dict)
        for each in held["annotations"]:
            classes[each["image_id"]][names[each["category_id"]]] = None
        return [
            {"name": each["file_name"], **each.get("jostle", {}), "answer": list(classes[each["id"]])}
            for each in held["images"]
            if each["id"] in classes or "jostle" in each
        ]
    except (KeyError, TypeError) as reason:
        raise SourceError(
            f"{path.name}: expected COCO's images (id, file_name), annotations (image_id, category_id) and "
            f"categories (id, name); {reason} is missing or of another type"
        ) from None


def is_json_export(export: Export, path: Path, head: bytes) -> bool:
    """Return whether jostle wrote a JSON file; what Label Studio wrote of tasks from here is not jostle's."""
    tasks = head.startswith(b'[\n {\n  "data": {') and b'"jostle_key"' in head
    own = f'{{\n "format": "{FORMAT}"', f'{{\n "info": {{\n  "description": "{COCO_DESCRIPTION}"'
    return tasks or any(head.startswith(each.encode()) for each in own)
