"""JSON that the page reads, and the routes of Find, of remarks and of near-copies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Query, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from pydantic import BaseModel, ConfigDict, Field

from jostle.labeling.answers import clean_person_name
from jostle.labeling.audit import suggestions
from jostle.labeling.find import ColorBy, Finder, Match, Search
from jostle.labeling.guide import GuideReader
from jostle.labeling.records import Card, Disagreement, Doubt, Entry, Suggestion
from jostle.labeling.server.people import Sender
from jostle.labeling.server.security import PICTURE_HEADERS
from jostle.labeling.session import Session
from jostle.labeling.sources import near_copies
from jostle.labeling.sources.contents import Question, shown_json
from jostle.labeling.sources.index import GoneError
from jostle.labeling.store.remarks import MAX_NOTE_LENGTH, Remark, RemarkKind, search_remarks


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
    """Return a question with its content, texts at once, a picture by its address, and its number of near-copies."""
    copies = len(session.copies.get().copies.get(asked.key, ()))
    return {"key": asked.key, "name": asked.name, "content": content_json(session, asked), "copies": copies}


def content_json(session: Session, asked: Question) -> dict[str, Any]:
    """Return the content of an example; browsers fetch a picture by its key."""
    if asked.kind == "image":
        return {"kind": "image", "url": f"/api/content/{asked.key}"}
    return shown_json(session.content(asked.key))


def suggestion_json(found: Suggestion | None) -> dict[str, Any]:
    """Return the model's answer; nulls where there is no model."""
    told: dict[str, Any] = {"answer": None, "confidence": None} if found is None else to_json(found)
    return told


def suggestions_json(session: Session, key: str, person: str) -> dict[str, Any]:
    """Return the suggestions for a question, which `person` sees from now on; the other model's only if it has one."""
    own, other = suggestions.show(session, key, person)
    return {**suggestion_json(own), **({} if other is None else {"other": to_json(other)})}


def tile_json(session: Session, each: Card | Match) -> dict[str, Any]:
    """Return an example of the grid or of a search."""
    answer = {"answer": to_json(each.answer)} if isinstance(each, Match) else {}
    return {**question_json(session, each.question), **answer, "suggestion": suggestion_json(each.suggestion)}


def doubt_json(session: Session, each: Doubt) -> dict[str, Any]:
    """Return an answer that the model would not have given."""
    said = [{"person": person, "answer": each.answer} for person in each.people]
    suggested = {"suggestion": suggestion_json(each.suggestion)}
    return {**said_json(question_json(session, each.question), each.answer, said), **suggested}


def disagreement_json(session: Session, each: Disagreement) -> dict[str, Any]:
    """Return an example that people answered differently, with their consensus as its answer."""
    said = [{"person": person, "answer": answer} for person, answer in each.answers.items()]
    return said_json(question_json(session, each.question), each.consensus, said)


def entry_json(session: Session, each: Entry) -> dict[str, Any]:
    """Return one line of all answers; an example that is gone has only its name."""
    line = question_json(session, each.question) if each.here else gone_json(each.question)
    said = {"person": each.person, "act": each.act, "answer": each.answer, "at": each.at}
    return said_json(line, each.answer, [said])


def gone_json(asked: Question) -> dict[str, Any]:
    """Return an example whose content is gone."""
    return {"key": asked.key, "name": asked.name, "content": {"kind": "gone"}}


def said_json(shown: dict[str, Any], answer: Any, said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an example with its answer, and all that people said."""
    return {**shown, "answer": to_json(answer), "said": to_json(said)}


Key = Annotated[str, Field(min_length=1, max_length=64)]
BYTES = "application/octet-stream"


def add_find_routes(app: FastAPI, session: Session) -> None:
    """Add the map, its colors, what is under the mouse, and searches."""
    finder = Finder(session)

    @app.get("/api/map")
    def describe_map() -> dict[str, Any]:
        found = finder.map()
        if found is None:
            return {"count": 0, "stage": None, "version": "", "meaning": False}
        version = f"{found.stage}-{len(found.keys)}-{float(np.abs(found.positions).sum()):.3f}"
        meaning = session.source.kind == "text"
        return {"count": len(found.keys), "stage": found.stage, "version": version, "meaning": meaning}

    @app.get("/api/map/positions")
    def positions() -> Response:
        found = finder.map()
        return Response(b"" if found is None else found.positions.astype("<f4").tobytes(), media_type=BYTES)

    @app.get("/api/map/colors")
    def colors(by: ColorBy) -> Response:
        return Response(finder.colors(by).tobytes(), media_type=BYTES)

    @app.get("/api/map/example")
    def example(place: Annotated[int, Field(ge=0)], count: int) -> dict[str, Any]:
        found = finder.map()
        if found is None or len(found.keys) != count or place >= count:
            raise ValueError("the map has changed: look again")
        return tile_json(session, finder.look(found.keys[place]))

    @app.post("/api/find")
    def find(search: Search) -> dict[str, Any]:
        found = finder.find(search)
        return {"examples": [tile_json(session, each) for each in found.matches], "total": found.total}


MAX_LISTED = 200  # examples with remarks that the review lists


class PersonBody(BaseModel):
    """Body of a post; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")
    person: Sender


class KeyBody(PersonBody):
    """Example that a person does something with."""

    key: Key


class RemarkBody(KeyBody):
    """A remark; without a text it is withdrawn."""

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
    asked = Question(found[0].key, session.source.kind, found[0].name)
    try:
        shown = question_json(session, asked)
    except GoneError:
        shown = gone_json(asked)
    said = [{"person": each.person, "kind": each.kind, "text": each.text, "at": each.at} for each in found]
    return said_json(shown, answer, said)


def add_copy_routes(app: FastAPI, session: Session) -> None:
    """Add the copies of an example, and splitting."""

    @app.get("/api/copies/{key}")
    def copies(key: str, n: Annotated[int, Query(ge=1, le=200)] = 24) -> dict[str, Any]:
        keys = session.copies.get().copies.get(key, ())[:n]
        return {"examples": [question_json(session, session.question(each)) for each in keys]}

    @app.post("/api/split")
    def split(body: KeyBody) -> dict[str, Any]:
        of = session.copies.get().representative.get(body.key, body.key)
        parted = near_copies.split(session, body.key, clean_person_name(body.person))
        left = len(session.copies.get().copies.get(of, ()))
        return {
            "questions": [question_json(session, session.question(each)) for each in parted],
            "left": left,
        }


def add_guide_routes(app: FastAPI, session: Session) -> None:
    """Add the guide and its pictures."""
    reader = GuideReader(session)

    @app.get("/api/guide")
    def guide() -> dict[str, Any]:
        found = reader.get()
        sections = [asdict(each) for each in found.sections]
        return {"sections": sections, "problems": found.problems, "digest": found.digest}

    @app.get("/api/guide/{key}")
    def picture(key: str) -> Response:
        found = reader.get().pictures.get(key)
        if found is None:
            raise HTTPException(404, f"the guide shows no picture {key}")
        return Response(found.data, media_type=found.mime, headers=PICTURE_HEADERS)


ASSETS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def load_template(name: str) -> Template:
    """Load the template of a page."""
    loader = PackageLoader("jostle.labeling.server")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)


def add_assets(app: FastAPI) -> None:
    """Add the route of styles, scripts and the icon."""
    assets = {file.name: file.read_bytes() for file in (files("jostle.labeling.server") / "static").iterdir()}

    @app.get("/static/{name}")
    def asset(name: str) -> Response:
        suffix = name[name.rfind(".") :]
        if name not in assets:
            raise HTTPException(404, f"no file {name!r}")
        return Response(assets[name], media_type=ASSETS[suffix])
