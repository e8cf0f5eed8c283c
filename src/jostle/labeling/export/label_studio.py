"""Label Studio's formats: configurations, tasks, predictions and annotations.

A task carries its example's key in `data`, so that an annotation finds its example whatever number Label Studio gives
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from jostle.labeling.answers import Answer, AnswerKind
from jostle.labeling.sources.contents import Content, ContentKind

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

    @property
    def type(self) -> str:
        """The type of a result."""
        return "number" if self.kind == "number" else "choices"


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
        raise LabelStudioError(
            "the Label Studio project's configuration must not have a DOCTYPE; remove it there"
        )
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
    content: Content,
    key: str,
    order: int,
    tags: Tags,
    prediction: Mapping[str, Any] | None,
    images: str = LOCAL_FILES,
) -> dict[str, Any]:
    """Return an example as a task; its order is in `data`, because a prediction's score means confidence."""
    data = {tags.field: task_content(content, images), KEY_FIELD: key, ORDER_FIELD: order}
    return {"data": data, "predictions": [] if prediction is None else [dict(prediction)]}


def task_content(content: Content, images: str) -> Any:
    """Return the content of a task: the address of a picture, a text, or a row."""
    if content.kind == "image":
        return images + quote(content.name)
    if content.kind == "text":
        return "\n\n".join(content.texts)
    return {name: "" if value is None else value for name, value in (content.fields or {}).items()}


def make_prediction(answer: Answer, score: float | None, version: str, tags: Tags) -> dict[str, Any]:
    """Return the model's answer as a prediction."""
    return {"model_version": version, "score": score, "result": [make_result(answer, tags)]}


def make_result(answer: Answer, tags: Tags) -> dict[str, Any]:
    """Return an answer as a result."""
    choices = [answer] if isinstance(answer, str) else answer if isinstance(answer, float) else list(answer)
    value = {"number" if tags.kind == "number" else "choices": choices}
    return {"from_name": tags.control, "to_name": tags.object, "type": tags.type, "value": value}


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
    found = [
        (str(each.get("updated_at") or each.get("created_at") or ""), read)
        for task in tasks
        for each in task.get("annotations") or []
        if (read := read_annotation(task, each, kind)) is not None
    ]
    return [read for _, read in sorted(found, key=lambda pair: pair[0])]


def read_annotation(task: Mapping[str, Any], said: Mapping[str, Any], kind: AnswerKind) -> Annotation | None:
    """Return one annotation; None where the task is not from here, or nothing was answered."""
    key = (task.get("data") or {}).get(KEY_FIELD)
    answer = None if said.get("was_cancelled") else read_answer(said.get("result") or [], kind)
    if not isinstance(key, str) or (answer is None and not said.get("was_cancelled")):
        return None
    seconds = said.get("lead_time")
    return Annotation(
        annotation_id(said),
        key,
        annotator_name(said.get("completed_by")),
        answer,
        None if seconds is None else float(seconds),
    )


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
