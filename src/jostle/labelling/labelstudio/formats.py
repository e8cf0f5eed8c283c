"""Label Studio's formats: tasks with predictions out, annotations in.

A task carries its example's key in `data`, so that an annotation finds its way back whatever Label Studio numbers it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from jostle.labelling.answers import Answer, AnswerKind
from jostle.labelling.contents import Content, ContentKind

KEY, ORDER = "jostle_key", "jostle_order"
LOCAL_FILES = "/data/local-files/?d="  # how Label Studio serves files of its own disk
OBJECTS: dict[ContentKind, str] = {"image": "Image", "text": "Text", "row": "Table"}


class LabelStudioError(ValueError):
    """What Label Studio holds does not fit this project; the message says where."""


@dataclass(frozen=True)
class Tags:
    """The two tags of a labelling configuration that matter here: what is shown, and what is answered."""

    control: str = "label"  # from_name
    object: str = "image"  # to_name
    field: str = "image"  # of a task's data
    kind: AnswerKind = "one"

    @property
    def type(self) -> str:
        """The type of a result."""
        return "number" if self.kind == "number" else "choices"


def configuration(kind: AnswerKind, shows: ContentKind, classes: Sequence[str]) -> str:
    """A labelling configuration for a new project."""
    shown = f'<{OBJECTS[shows]} name="{shows}" value="${shows}"/>'
    if kind == "number":
        return f'<View>{shown}<Number name="label" toName="{shows}"/></View>'
    several = ' choice="multiple"' if kind == "several" else ""
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in classes)
    return f'<View>{shown}<Choices name="label" toName="{shows}"{several}>{choices}</Choices></View>'


def tags(configuration: str, kind: AnswerKind) -> Tags:
    """The tags of a project's configuration that fit a kind of answer."""
    wanted = "Number" if kind == "number" else "Choices"
    try:
        found = list(ElementTree.fromstring(configuration).iter())
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


def task(
    content: Content,
    key: str,
    order: int,
    tags: Tags,
    prediction: Mapping[str, Any] | None,
    images: str = LOCAL_FILES,
) -> dict[str, Any]:
    """An example as a task; its order is in `data`, as a prediction's score means confidence."""
    data = {tags.field: task_content(content, images), KEY: key, ORDER: order}
    return {"data": data, "predictions": [] if prediction is None else [dict(prediction)]}


def task_content(content: Content, images: str) -> Any:
    """What a task shows: the address of a picture, a text, or a row."""
    if content.kind == "image":
        return images + quote(content.name)
    if content.kind == "text":
        return "\n\n".join(content.texts)
    return {name: "" if value is None else value for name, value in (content.fields or {}).items()}


def prediction(answer: Answer, score: float | None, version: str, tags: Tags) -> dict[str, Any]:
    """What the model says of an example."""
    return {"model_version": version, "score": score, "result": [task_result(answer, tags)]}


def task_result(answer: Answer, tags: Tags) -> dict[str, Any]:
    """An answer as a result."""
    choices = [answer] if isinstance(answer, str) else answer if isinstance(answer, float) else list(answer)
    value = {"number" if tags.kind == "number" else "choices": choices}
    return {"from_name": tags.control, "to_name": tags.object, "type": tags.type, "value": value}


@dataclass(frozen=True)
class Annotation:
    """What somebody said of a task; no answer means that they skipped it."""

    id: str  # made of what was said and when: read again, it is the same
    key: str
    person: str
    answer: Answer | None
    seconds: float | None


def annotations(tasks: Sequence[Mapping[str, Any]], kind: AnswerKind) -> list[Annotation]:
    """The annotations of an export, in the order in which they were made; tasks of others are passed over."""
    found = [
        (str(each.get("updated_at") or each.get("created_at") or ""), read)
        for task in tasks
        for each in task.get("annotations") or []
        if (read := annotation(task, each, kind)) is not None
    ]
    return [read for _, read in sorted(found, key=lambda pair: pair[0])]


def annotation(task: Mapping[str, Any], said: Mapping[str, Any], kind: AnswerKind) -> Annotation | None:
    """One annotation; None where the task is not ours, or nothing was said that this project asks."""
    key = (task.get("data") or {}).get(KEY)
    answer = None if said.get("was_cancelled") else answer_of(said.get("result") or [], kind)
    if not isinstance(key, str) or (answer is None and not said.get("was_cancelled")):
        return None
    seconds = said.get("lead_time")
    return Annotation(
        identity(said),
        key,
        person(said.get("completed_by")),
        answer,
        None if seconds is None else float(seconds),
    )


def answer_of(results: Sequence[Mapping[str, Any]], kind: AnswerKind) -> Answer | None:
    """The answer in the results of an annotation."""
    for each in results:
        value = each.get("value") or {}
        if kind == "number" and "number" in value:
            return float(value["number"])
        if kind != "number" and "choices" in value:
            chosen = tuple(map(str, value["choices"]))
            return chosen if kind == "several" else chosen[0] if chosen else None
    return () if kind == "several" and not results else None


def identity(said: Mapping[str, Any]) -> str:
    """An id that changes when an annotation does."""
    told = [said.get("id"), said.get("updated_at"), said.get("result"), said.get("was_cancelled")]
    digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"{prefix(said.get('id'))}{digest}"


def prefix(number: Any) -> str:
    """How the ids of an annotation begin, whatever it says."""
    return f"labelstudio-{number}-"


def person(completed_by: Any) -> str:
    """Who annotated: Label Studio gives a number, or a user."""
    if isinstance(completed_by, Mapping):
        return str(completed_by.get("email") or f"labelstudio-{completed_by.get('id')}")
    return f"labelstudio-{completed_by if completed_by is not None else 'unknown'}"
