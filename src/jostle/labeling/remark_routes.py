"""Routes of remarks: unsure, notes and flags."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from jostle.labeling.contents import Question
from jostle.labeling.index import GoneError
from jostle.labeling.payloads import question_json, to_json
from jostle.labeling.remarks import MAX_NOTE_LENGTH, Remark, RemarkKind, search_remarks
from jostle.labeling.session import Session

MAX_LISTED = 200  # examples with remarks that the review lists


class RemarkBody(BaseModel):
    """A remark; without a text it is withdrawn."""

    model_config = ConfigDict(extra="forbid")
    person: Annotated[str, Field(min_length=1, max_length=200)]
    key: Annotated[str, Field(min_length=1, max_length=64)]
    kind: RemarkKind
    text: Annotated[str, Field(max_length=MAX_NOTE_LENGTH)] | None = ""


def add_remark_routes(app: FastAPI, session: Session) -> None:
    """Add remarks, and the list of them."""

    @app.post("/api/remark")
    def remark(body: RemarkBody) -> dict[str, Any]:
        session.remark(body.key, body.kind, body.text, body.person)
        return {}

    @app.get("/api/remarks")
    def remarks(search: str = "", kind: RemarkKind | None = None) -> dict[str, Any]:
        by_key: dict[str, list[Remark]] = {}
        for each in search_remarks(session, search, kind):
            by_key.setdefault(each.key, []).append(each)
        labels, shown = session.labels(), list(by_key.items())[:MAX_LISTED]
        return {"examples": [remarked_json(session, found, labels.get(key)) for key, found in shown]}


def remarked_json(session: Session, found: list[Remark], answer: Any) -> dict[str, Any]:
    """Return an example with the remarks on it; one that is gone has only its name."""
    key, name = found[0].key, found[0].name
    try:
        shown = question_json(session, Question(key, session.source.kind, name))
    except GoneError:
        shown = {"key": key, "name": name, "content": {"kind": "gone"}}
    said = [{"person": each.person, "kind": each.kind, "text": each.text, "at": each.at} for each in found]
    return {**shown, "answer": to_json(answer), "said": said}
