"""What the session knows, as the JSON that the page reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from jostle.labelling.contents import Content, Question
from jostle.labelling.records import Card, Disagreement, Doubt, Entries, Entry, Progress, Suggestion
from jostle.labelling.session import Session


def as_json(value: Any) -> Any:
    """A record as JSON; a number that is not finite has no word there and becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def question(session: Session, asked: Question) -> dict[str, Any]:
    """A question with what it shows: words at once, a picture by its address."""
    return {"key": asked.key, "name": asked.name, "content": content_view(session, asked)}


def content_view(session: Session, asked: Question) -> dict[str, Any]:
    """What an example shows; a picture is fetched by its key when a browser wants it."""
    if asked.kind == "image":
        return {"kind": "image", "url": f"/api/content/{asked.key}"}
    content: Content = session.content(asked.key)
    if content.kind == "text":
        return {"kind": "text", "texts": list(content.texts)}
    fields = content.fields or {}
    return {
        "kind": "row",
        "fields": [[name, "" if value is None else str(value)] for name, value in fields.items()],
    }


def suggestion_view(found: Suggestion | None) -> dict[str, Any]:
    """What the model would answer; nulls where there is no model."""
    told: dict[str, Any] = {"answer": None, "confidence": None} if found is None else as_json(found)
    return told


def card(session: Session, each: Card) -> dict[str, Any]:
    """A tile of the grid."""
    return {**question(session, each.question), "suggestion": suggestion_view(each.suggestion)}


def doubt(session: Session, each: Doubt) -> dict[str, Any]:
    """An answer that the model would not have given."""
    said = [{"person": person, "answer": as_json(each.answer)} for person in each.people]
    return {
        **question(session, each.question),
        "answer": as_json(each.answer),
        "suggestion": suggestion_view(each.suggestion),
        "said": said,
    }


def disagreement(session: Session, each: Disagreement) -> dict[str, Any]:
    """An example that people answered differently; what they say together is the answer to begin with."""
    said = [{"person": person, "answer": as_json(answer)} for person, answer in each.answers.items()]
    return {**question(session, each.question), "answer": as_json(each.consensus), "said": said}


def entries_view(session: Session, found: Entries) -> dict[str, Any]:
    """A page of all answers."""
    shown = [entry(session, each) for each in found.entries]
    return {"examples": shown, "total": found.total, "page": found.page, "pages": found.pages}


def entry(session: Session, each: Entry) -> dict[str, Any]:
    """One line; of an example that is gone only its name is left."""
    gone = {"key": each.question.key, "name": each.question.name, "content": {"kind": "gone"}}
    line = question(session, each.question) if each.here else gone
    said = {"person": each.person, "act": each.act, "answer": as_json(each.answer), "at": each.at}
    return {**line, "answer": as_json(each.answer), "said": [said]}


def figures(found: Progress) -> dict[str, Any]:
    """How it goes."""
    told: dict[str, Any] = as_json(found)
    return told
