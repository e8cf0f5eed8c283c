"""Routes of the page's views: the grid, answers to review, progress, classes, Find, remarks, the guide, near-copies."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from jostle.labeling.answers import Answer, clean_person_name
from jostle.labeling.audit import HeldFigures, other_models
from jostle.labeling.find import ColorBy, Finder, Search
from jostle.labeling.guide import GuideReader
from jostle.labeling.records import Match, Suggestion
from jostle.labeling.review import GridOrder
from jostle.labeling.server.security import PICTURE_HEADERS, Routes, Sender
from jostle.labeling.session import Session
from jostle.labeling.sources import GoneError, near_copies
from jostle.labeling.sources.contents import Question, shown_json
from jostle.labeling.store.edits import MAX_NOTE_LENGTH, Remark, RemarkKind, search_remarks

FRESH_SECONDS = 1.0  # seconds that figures are shown before they are computed again
REST_FACTOR = 20  # times as long as the computing took that nothing is computed: people who answer come first
MAX_LISTED = 200  # examples with remarks that the review lists
BYTES = "application/octet-stream"

Given = str | float | list[str]  # an answer in JSON
Id = Annotated[str, Field(min_length=8, max_length=64)]
Key = Annotated[str, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
ManyQuery = Annotated[int, Query(ge=1, le=200)]


class PersonBody(BaseModel):
    """Body of a post; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")
    person: Sender


class KeyBody(PersonBody):
    """Example that a person does something with."""

    key: Key


class CorrectionBody(KeyBody):
    """Answer in place of another."""

    answer: Given


class RemarkBody(KeyBody):
    """A remark; without a text it is withdrawn."""

    kind: RemarkKind
    text: Annotated[str, Field(max_length=MAX_NOTE_LENGTH)] | None = ""


class ClassBody(PersonBody):
    """Class to add."""

    name: Name


class RenameBody(ClassBody):
    """Class and its new name."""

    to: Name


class MergeBody(ClassBody):
    """Class to merge into another."""

    into: Name


def as_answer(given: Given) -> Answer:
    """Return an answer of JSON as the session takes it."""
    return tuple(given) if isinstance(given, list) else given


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
    if asked.kind == "image":
        content = {"kind": "image", "url": f"/api/content/{asked.key}"}
    else:
        content = shown_json(session.content(asked.key))
    copies = len(session.copies.get().copies.get(asked.key, ()))
    return {"key": asked.key, "name": asked.name, "content": content, "copies": copies}


def suggestion_json(found: Suggestion | None) -> dict[str, Any]:
    """Return the model's answer; nulls where there is no model."""
    return {"answer": None, "confidence": None} if found is None else asdict(found)


def tile_json(session: Session, found: Match) -> dict[str, Any]:
    """Return an example of a search, with its answer and the model's."""
    shown = question_json(session, found.question)
    return {**shown, "answer": found.answer, "suggestion": suggestion_json(found.suggestion)}


def said_json(
    session: Session, asked: Question, answer: Any, said: Sequence[Mapping[str, Any]], here: bool = True
) -> dict[str, Any]:
    """Return an example with its answer, and all that people said; one that is gone has only its name."""
    shown: dict[str, Any] = {"key": asked.key, "name": asked.name, "content": {"kind": "gone"}}
    if here:
        with suppress(GoneError):
            shown = question_json(session, asked)
    return {**shown, "answer": answer, "said": said}


class ProgressCache:
    """Cache of the progress: computed at most once a second, and rarely where it takes long."""

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self.compute, self.busy = compute, threading.Lock()
        self.found: dict[str, Any] = {}
        self.began = self.until = float("-inf")

    def get(self) -> dict[str, Any]:
        """Return the progress and its age in seconds; while another thread computes it, the one before."""
        if time.monotonic() > self.until and self.busy.acquire(blocking=not self.found):
            try:
                if (began := time.monotonic()) > self.until:
                    self.found, self.began = self.compute(), began
                    self.until = time.monotonic() + max(
                        FRESH_SECONDS, REST_FACTOR * (time.monotonic() - began)
                    )
            finally:
                self.busy.release()
        return {**self.found, "age": time.monotonic() - self.began}

    def expire(self) -> None:
        """Compute the progress anew at the next call."""
        self.until = float("-inf")


def add_view_routes(routes: Routes, session: Session) -> ProgressCache:
    """Add suggestions, the grid, answers to review and to correct, and progress; return what holds the progress."""
    seen = ProgressCache(HeldFigures(lambda: to_json(session.progress())).get)

    @routes.label.get("/api/suggestion/{key}")
    def suggested(key: str, person: Sender) -> dict[str, Any]:
        """Return what a person sees of the suggestions from now on; the other model's only if it has one."""
        own, other = other_models.show_suggestions(session, key, person)
        return {**suggestion_json(own), **({} if other is None else {"other": asdict(other)})}

    @routes.label.get("/api/grid")
    def grid(
        name: Annotated[str, Query(alias="class")], n: ManyQuery = 24, order: GridOrder = "surest"
    ) -> dict[str, Any]:
        shown = [
            {**question_json(session, each.question), "suggestion": suggestion_json(each.suggestion)}
            for each in session.grid(name, n, order)
        ]
        return {"examples": shown}

    @routes.review.get("/api/doubts")
    def doubts(n: ManyQuery = 50) -> dict[str, Any]:
        shown = []
        for each in session.doubts(n):
            said = [{"person": person, "answer": each.answer} for person in each.people]
            found = said_json(session, each.question, each.answer, said)
            shown.append({**found, "suggestion": suggestion_json(each.suggestion)})
        return {"examples": shown}

    @routes.review.get("/api/disagreements")
    def disagreements(n: ManyQuery = 50) -> dict[str, Any]:
        shown = []
        for each in session.disagreements()[:n]:
            said = [{"person": person, "answer": answer} for person, answer in each.answers.items()]
            shown.append(said_json(session, each.question, each.consensus, said))
        return {"examples": shown}

    @routes.review.get("/api/answers")
    def all_answers(search: str = "", page: Annotated[int, Query(ge=1)] = 1) -> dict[str, Any]:
        found, shown = session.answers(search, page), []
        for each in found.entries:
            said = {"person": each.person, "act": each.act, "answer": each.answer, "at": each.at}
            shown.append(said_json(session, each.question, each.answer, [said], each.here))
        return {"examples": shown, "total": found.total, "page": found.page, "pages": found.pages}

    @routes.review.post("/api/correct")
    def correct(body: CorrectionBody) -> dict[str, Any]:
        session.correct(body.key, as_answer(body.answer), body.person)
        return {}

    @routes.label.get("/api/progress")
    def progress() -> dict[str, Any]:
        return seen.get()

    return seen


def add_class_routes(routes: Routes, session: Session, seen: ProgressCache) -> None:
    """Add changes of classes, proofs, and training at once, after which the progress is computed anew."""

    @routes.manage.post("/api/classes/rename")
    def rename(body: RenameBody) -> dict[str, Any]:
        session.rename_class(body.name, body.to)
        seen.expire()
        return {}

    @routes.manage.post("/api/classes/merge")
    def merge(body: MergeBody) -> dict[str, Any]:
        session.merge_class(body.name, body.into)
        seen.expire()
        return {}

    @routes.manage.post("/api/classes/add")
    def add(body: ClassBody) -> dict[str, Any]:
        session.add_class(body.name)
        seen.expire()
        return {}

    @routes.manage.post("/api/prove")
    def prove(_: PersonBody) -> dict[str, Any]:
        questions = session.prove()
        seen.expire()
        return {"questions": questions}

    @routes.manage.post("/api/train")
    def train(_: PersonBody) -> dict[str, Any]:
        session.request_round()
        seen.expire()
        return {}


def add_find_routes(routes: Routes, session: Session) -> None:
    """Add the map, its colors, what is under the mouse, and searches: this view shows everybody's answers."""
    finder = Finder(session)

    @routes.review.get("/api/map")
    def describe_map() -> dict[str, Any]:
        found = finder.map()
        if found is None:
            return {"count": 0, "stage": None, "version": "", "meaning": False}
        version = f"{found.stage}-{len(found.keys)}-{float(np.abs(found.positions).sum()):.3f}"
        meaning = session.source.kind == "text"
        return {"count": len(found.keys), "stage": found.stage, "version": version, "meaning": meaning}

    @routes.review.get("/api/map/positions")
    def positions() -> Response:
        found = finder.map()
        return Response(b"" if found is None else found.positions.astype("<f4").tobytes(), media_type=BYTES)

    @routes.review.get("/api/map/colors")
    def colors(by: ColorBy) -> Response:
        return Response(finder.colors(by).tobytes(), media_type=BYTES)

    @routes.review.get("/api/map/example")
    def example(place: Annotated[int, Field(ge=0)], count: int) -> dict[str, Any]:
        found = finder.map()
        if found is None or len(found.keys) != count or place >= count:
            raise ValueError("the map has changed: look again")
        return tile_json(session, finder.look(found.keys[place]))

    @routes.review.post("/api/find")
    def find(search: Search) -> dict[str, Any]:
        found = finder.find(search)
        return {"examples": [tile_json(session, each) for each in found.matches], "total": found.total}


def add_remark_routes(routes: Routes, session: Session) -> None:
    """Add remarks, and the list of them."""

    @routes.label.post("/api/remark")
    def remark(body: RemarkBody) -> dict[str, Any]:
        session.remark(body.key, body.kind, body.text, body.person)
        return {}

    @routes.review.get("/api/remarks")
    def remarks(search: str = "", kind: RemarkKind | None = None) -> dict[str, Any]:
        by_key: dict[str, list[Remark]] = {}
        for each in search_remarks(session, search, kind):
            by_key.setdefault(each.key, []).append(each)
        labels, shown = session.labels(), []
        for key, found in list(by_key.items())[:MAX_LISTED]:
            asked = Question(key, session.source.kind, found[0].name)
            said = [{"person": r.person, "kind": r.kind, "text": r.text, "at": r.at} for r in found]
            shown.append(said_json(session, asked, labels.get(key), said))
        return {"examples": shown}


def add_copy_routes(routes: Routes, session: Session) -> None:
    """Add the copies of an example, and splitting."""

    @routes.label.get("/api/copies/{key}")
    def copies(key: str, n: ManyQuery = 24) -> dict[str, Any]:
        keys = session.copies.get().copies.get(key, ())[:n]
        return {"examples": [question_json(session, session.question(each)) for each in keys]}

    @routes.label.post("/api/split")
    def split(body: KeyBody) -> dict[str, Any]:
        of = session.copies.get().representative.get(body.key, body.key)
        parted = near_copies.split(session, body.key, clean_person_name(body.person))
        left = len(session.copies.get().copies.get(of, ()))
        return {
            "questions": [question_json(session, session.question(each)) for each in parted],
            "left": left,
        }


def add_guide_routes(routes: Routes, session: Session) -> None:
    """Add the guide and its pictures."""
    reader = GuideReader(session)

    @routes.label.get("/api/guide")
    def guide() -> dict[str, Any]:
        found = reader.get()
        sections = [asdict(each) for each in found.sections]
        return {"sections": sections, "problems": found.problems, "digest": found.digest}

    @routes.label.get("/api/guide/{key}")
    def picture(key: str) -> Response:
        found = reader.get().pictures.get(key)
        if found is None:
            raise HTTPException(404, f"the guide shows no picture {key}")
        return Response(found.data, media_type=found.mime, headers=PICTURE_HEADERS)
