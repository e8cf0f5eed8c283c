"""JSON that the page reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from jostle.labeling.contents import Content, Question
from jostle.labeling.records import Card, Disagreement, Doubt, Entries, Entry, Progress, Suggestion
from jostle.labeling.session import Session


def to_json(value: Any) -> Any:
    """Return a record as JSON; a number that is not finite becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def question_json(session: Session, asked: Question) -> dict[str, Any]:
    """Return a question with its content: texts at once, a picture by its address."""
    return {"key": asked.key, "name": asked.name, "content": content_json(session, asked)}


def content_json(session: Session, asked: Question) -> dict[str, Any]:
    """Return the content of an example; browsers fetch a picture by its key."""
    if asked.kind == "image":
        return {"kind": "image", "url": f"/api/content/{asked.key}"}
    return shown_json(session.content(asked.key))


def shown_json(content: Content) -> dict[str, Any]:
    """Return a text or a row as the page draws it."""
    if content.kind == "text":
        return {"kind": "text", "texts": list(content.texts)}
    fields = content.fields or {}
    return {
        "kind": "row",
        "fields": [[name, "" if value is None else str(value)] for name, value in fields.items()],
    }


def suggestion_json(found: Suggestion | None) -> dict[str, Any]:
    """Return the model's answer; nulls where there is no model."""
    told: dict[str, Any] = {"answer": None, "confidence": None} if found is None else to_json(found)
    return told


def card_json(session: Session, each: Card) -> dict[str, Any]:
    """Return a tile of the grid."""
    return {**question_json(session, each.question), "suggestion": suggestion_json(each.suggestion)}


def doubt_json(session: Session, each: Doubt) -> dict[str, Any]:
    """Return an answer that the model would not have given."""
    said = [{"person": person, "answer": to_json(each.answer)} for person in each.people]
    return {
        **question_json(session, each.question),
        "answer": to_json(each.answer),
        "suggestion": suggestion_json(each.suggestion),
        "said": said,
    }


def disagreement_json(session: Session, each: Disagreement) -> dict[str, Any]:
    """Return an example that people answered differently, with their consensus as its answer."""
    said = [{"person": person, "answer": to_json(answer)} for person, answer in each.answers.items()]
    return {**question_json(session, each.question), "answer": to_json(each.consensus), "said": said}


def entries_json(session: Session, found: Entries) -> dict[str, Any]:
    """Return a page of all answers."""
    shown = [entry_json(session, each) for each in found.entries]
    return {"examples": shown, "total": found.total, "page": found.page, "pages": found.pages}


def entry_json(session: Session, each: Entry) -> dict[str, Any]:
    """Return one line of all answers; an example that is gone has only its name."""
    gone = {"key": each.question.key, "name": each.question.name, "content": {"kind": "gone"}}
    line = question_json(session, each.question) if each.here else gone
    said = {"person": each.person, "act": each.act, "answer": to_json(each.answer), "at": each.at}
    return {**line, "answer": to_json(each.answer), "said": [said]}


def progress_json(found: Progress) -> dict[str, Any]:
    """Return the progress of a session."""
    told: dict[str, Any] = to_json(found)
    return told
