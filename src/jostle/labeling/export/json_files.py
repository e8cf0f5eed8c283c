"""JSON files of labels: jostle's own with every person's answers, Label Studio's tasks, and COCO's lists.

A task of Label Studio carries its example's key in `data`, so that an annotation finds its example whatever number
Label Studio gives it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from PIL import Image
from sqlalchemy import select

from jostle.labeling.answers import Answer, AnswerKind
from jostle.labeling.export.tables import FORMAT, Export, Row, answer_words, extra_cells
from jostle.labeling.sources.contents import Content, ContentKind, SourceError
from jostle.labeling.store.edits import Remark, current_remarks, remark_cells
from jostle.labeling.store.schema import suggestions_shown
from jostle.utils.files import write_whole

if TYPE_CHECKING:
    from jostle.labeling.session import Session

KEY_FIELD, ORDER_FIELD = "jostle_key", "jostle_order"
LOCAL_FILES = "/data/local-files/?d="  # how Label Studio serves files of its own disk
OBJECTS: dict[ContentKind, str] = {"image": "Image", "text": "Text", "row": "Table"}


class LabelStudioError(ValueError):
    """Data of Label Studio that does not fit this project; the message says where."""


@dataclass(frozen=True)
class Tags:
    """Two tags of a labeling configuration: the one that shows the example, and the one that takes the answer."""

    control: str = "label"  # from_name
    object: str = "image"  # to_name
    field: str = "image"  # of a task's data
    kind: AnswerKind = "one"


def make_config(kind: AnswerKind, shows: ContentKind, classes: Sequence[str]) -> str:
    """Return a labeling configuration for a new project."""
    shown = f'<{OBJECTS[shows]} name="{shows}" value="${shows}"/>'
    if kind == "number":
        return f'<View>{shown}<Number name="label" toName="{shows}"/></View>'
    several = ' choice="multiple"' if kind == "several" else ""
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in classes)
    return f'<View>{shown}<Choices name="label" toName="{shows}"{several}>{choices}</Choices></View>'


def parse_tags(configuration: str, kind: AnswerKind) -> Tags:
    """Return the tags of a project's configuration that fit a kind of answer."""
    wanted = "Number" if kind == "number" else "Choices"
    if "<!DOCTYPE" in configuration:  # entities of entities would fill the memory
        raise LabelStudioError("remove the DOCTYPE of the Label Studio project's configuration")
    try:
        found = list(ElementTree.fromstring(configuration).iter())  # nosec B314  # without a DOCTYPE, no entities
    except ElementTree.ParseError as wrong:
        raise LabelStudioError(f"the Label Studio project's configuration cannot be read: {wrong}") from None
    shown = {each.get("name", ""): each.get("value", "") for each in found if each.tag in OBJECTS.values()}
    for each in found:
        target = each.get("toName", "")
        if each.tag == wanted and target in shown:
            return Tags(each.get("name", ""), target, shown[target].removeprefix("$"), kind)
    raise LabelStudioError(
        f"the Label Studio project has no {wanted} tag on a {', '.join(OBJECTS.values())} tag, which these answers "
        f"need; its tags: {', '.join(sorted({each.tag for each in found}))}"
    )


def make_task(
    content: Content, order: int, tags: Tags, prediction: Mapping[str, Any] | None, images: str = LOCAL_FILES
) -> dict[str, Any]:
    """Return an example as a task; its order is in `data`, because a prediction's score means confidence."""
    shown: Any = images + quote(content.name)
    if content.kind == "text":
        shown = "\n\n".join(content.texts)
    elif content.kind == "row":
        shown = {name: "" if value is None else value for name, value in (content.fields or {}).items()}
    data = {tags.field: shown, KEY_FIELD: content.key, ORDER_FIELD: order}
    return {"data": data, "predictions": [] if prediction is None else [dict(prediction)]}


def make_prediction(answer: Answer, score: float | None, version: str, tags: Tags) -> dict[str, Any]:
    """Return the model's answer as a prediction."""
    return {"model_version": version, "score": score, "result": [make_result(answer, tags)]}


def make_result(answer: Answer, tags: Tags) -> dict[str, Any]:
    """Return an answer as a result."""
    said = [answer] if isinstance(answer, str) else answer if isinstance(answer, float) else list(answer)
    type = "number" if tags.kind == "number" else "choices"
    return {"from_name": tags.control, "to_name": tags.object, "type": type, "value": {type: said}}


@dataclass(frozen=True)
class Annotation:
    """One person's annotation of a task; no answer means that they skipped it."""

    id: str  # made of what was said and when: read again, it is the same
    key: str
    person: str
    answer: Answer | None
    seconds: float | None


def read_annotations(tasks: Sequence[Mapping[str, Any]], kind: AnswerKind) -> list[Annotation]:
    """Return the annotations of an export in the order they were made; skip tasks of other projects."""
    said = [(task, each) for task in tasks for each in task.get("annotations") or []]
    said.sort(key=lambda pair: annotation_time(pair[1]))
    read = [read_annotation(task, each, kind) for task, each in said]
    return [each for each in read if each is not None]


def annotation_time(said: Mapping[str, Any]) -> str:
    """Return when an annotation was made, as Label Studio writes it."""
    return str(said.get("updated_at") or said.get("created_at") or "")


def read_annotation(task: Mapping[str, Any], said: Mapping[str, Any], kind: AnswerKind) -> Annotation | None:
    """Return one annotation; None where the task is not from here, or nothing was answered."""
    key = (task.get("data") or {}).get(KEY_FIELD)
    answer = None if said.get("was_cancelled") else read_answer(said.get("result") or [], kind)
    if not isinstance(key, str) or (answer is None and not said.get("was_cancelled")):
        return None
    seconds = None if said.get("lead_time") is None else float(said["lead_time"])
    return Annotation(annotation_id(said), key, annotator_name(said.get("completed_by")), answer, seconds)


def read_answer(results: Sequence[Mapping[str, Any]], kind: AnswerKind) -> Answer | None:
    """Return the answer in the results of an annotation."""
    for each in results:
        value = each.get("value") or {}
        if kind == "number" and "number" in value:
            return float(value["number"])
        if kind != "number" and "choices" in value:
            chosen = tuple(map(str, value["choices"]))
            return chosen if kind == "several" else chosen[0] if chosen else None
    return () if kind == "several" and not results else None


def annotation_id(said: Mapping[str, Any]) -> str:
    """Return an id that changes when an annotation does."""
    told = [said.get("id"), said.get("updated_at"), said.get("result"), said.get("was_cancelled")]
    digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"{id_prefix(said.get('id'))}{digest}"


def id_prefix(number: Any) -> str:
    """Return the beginning of all ids of an annotation."""
    return f"labelstudio-{number}-"


def annotator_name(completed_by: Any) -> str:
    """Return the name of an annotator, given as a number or as a user."""
    if isinstance(completed_by, Mapping):
        return str(completed_by.get("email") or f"labelstudio-{completed_by.get('id')}")
    return f"labelstudio-{completed_by if completed_by is not None else 'unknown'}"


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
        raise SourceError(f"{path.name}: {EXPECTED}; got {held!r:.60}")
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
        made = make_task(content, order, tags, guess)
        if not guessed:
            cells = {name: cell for name, cell in extra_cells(each).items() if name != "key"}
            made["data"] |= {f"jostle_{name}": cell for name, cell in cells.items()}
            made["annotations"] = [{"result": [make_result(each["answer"], tags)], "was_cancelled": False}]
        tasks.append(made)
    dump(path, tasks)


def task_rows(task: Mapping[str, Any], kind: AnswerKind) -> list[Row]:
    """Return the last annotation of a task as a row; none if nobody has answered it."""
    data: Mapping[str, Any] = task["data"]
    said = [each for each in task.get("annotations") or [] if not each.get("was_cancelled")]
    said.sort(key=annotation_time)
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


def is_json_export(head: bytes) -> bool:
    """Return whether jostle wrote a JSON file; what Label Studio wrote of tasks from here is not jostle's."""
    tasks = head.startswith(b'[\n {\n  "data": {') and b'"jostle_key"' in head
    own = f'{{\n "format": "{FORMAT}"', f'{{\n "info": {{\n  "description": "{COCO_DESCRIPTION}"'
    return tasks or any(head.startswith(each.encode()) for each in own)
