"""The server of the labelling page: a thin layer of JSON over a `Session`, behind a `Guard`.

Nothing here knows a path of the data: examples are named by their keys, and the session reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jostle.labelling.answers import Answer
from jostle.labelling.contents import digest
from jostle.labelling.index import GoneError
from jostle.labelling.keys import shortcuts
from jostle.labelling.pictures import small_picture
from jostle.labelling.security import Door, Guard
from jostle.labelling.session import Session
from jostle.labelling.store import UnknownKeyError
from jostle.labelling.views import card, disagreement, doubt, entries_view, figures, question, suggestion_view

ASSETS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# What is in a picture is never run, whatever it says it is; by its key it never changes.
PICTURE = {
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, max-age=31536000, immutable",
}
FRESH = 1.0  # seconds that figures are shown before they are computed again
REST = 20  # times as long as the computing took that nothing is computed: people who answer come first

Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[str, Field(min_length=1, max_length=64)]
Few = Annotated[int, Query(ge=0, le=20)]
Keys = Annotated[list[Key], Query(max_length=100)]
Many = Annotated[int, Query(ge=1, le=200)]


class Body(BaseModel):
    """What a post holds; a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")
    person: Name


class Given(BaseModel):
    """One answer on its way; the id was made where it was given."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(min_length=8, max_length=64)]
    key: Key
    answer: str | float | list[str]
    seconds: float | None = Field(default=None, ge=0, le=86400)


class Batch(Body):
    """Answers in the order in which they were given; each is judged on its own."""

    answers: Annotated[list[Any], Field(max_length=200)]


class Skipped(Body):
    """A question that somebody would rather not answer."""

    key: Key


class Corrected(Body):
    """An answer in place of another."""

    key: Key
    answer: str | float | list[str]


class Renamed(Body):
    """A class with another name."""

    name: Name
    to: Name


class Merged(Body):
    """A class that becomes part of another."""

    name: Name
    into: Name


class Added(Body):
    """A new class."""

    name: Name


class Figures:
    """The session's progress, computed at most once a second however many look, and rarely where it takes long."""

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self.compute, self.busy = compute, threading.Lock()
        self.found: dict[str, Any] = {}
        self.began = self.until = float("-inf")

    def now(self) -> dict[str, Any]:
        """The figures and their age in seconds; while somebody computes newer ones, those of before."""
        if time.monotonic() > self.until and self.busy.acquire(blocking=not self.found):
            try:
                if (began := time.monotonic()) > self.until:
                    self.found, self.began = self.compute(), began
                    self.until = time.monotonic() + max(FRESH, REST * (time.monotonic() - began))
            finally:
                self.busy.release()
        return {**self.found, "age": time.monotonic() - self.began}

    def expire(self) -> None:
        """Something changed that people expect to see at once."""
        self.until = float("-inf")


class NoPageError(LookupError):
    """Something that this server does not have."""


def app_of(session: Session, title: str) -> FastAPI:
    """The page and its calls, without a guard."""
    app = FastAPI(title="jostle label", docs_url=None, redoc_url=None, openapi_url=None)
    serve_page(app, session, title)
    serve_questions(app, session)
    seen = Figures(lambda: figures(session.progress()))
    serve_looks(app, session, seen)
    serve_corrections(app, session, seen)
    for missing in (UnknownKeyError, GoneError, NoPageError):
        app.add_exception_handler(missing, _missing)
    app.add_exception_handler(ValueError, _mistaken)
    return app


def guarded_app(session: Session, door: Door, title: str) -> Guard:
    """What a server runs."""
    return Guard(app_of(session, title), door)


def _missing(_: Request, reason: Exception) -> Response:
    return JSONResponse({"detail": str(reason)}, status_code=404)


def _mistaken(_: Request, reason: Exception) -> Response:
    return JSONResponse({"detail": str(reason)}, status_code=400)


def serve_page(app: FastAPI, session: Session, title: str) -> None:
    """The page itself, the files it is made of, and what the project asks."""
    loader = PackageLoader("jostle.labelling")
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(
        "page.html.j2"
    )
    assets = {file.name: file.read_bytes() for file in (files("jostle.labelling") / "static").iterdir()}

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse(template.render(project=title))

    @app.get("/static/{name}")
    def asset(name: str) -> Response:
        suffix = name[name.rfind(".") :]
        if name not in assets:
            raise NoPageError(f"no file {name!r}")
        return Response(assets[name], media_type=ASSETS[suffix])

    @app.get("/api/project")
    def project() -> dict[str, Any]:
        keys = shortcuts(list(session.book.classes().names.values()))
        classes = [{"name": name, "keys": own} for name, own in keys.items()]
        return {
            "id": digest(str(session.project.resolve()).encode()),
            "answers": {"kind": session.kind, "name": session.settings.target, "classes": classes},
        }


def serve_questions(app: FastAPI, session: Session) -> None:
    """Asking and answering: two calls, so that nobody who answers waits for what they are asked later."""

    @app.get("/api/questions")
    def questions(person: str, n: Few = 5, have: Keys = []) -> dict[str, Any]:  # noqa: B006
        """What somebody is to have open: the keys of all, and in full what they do not have."""
        found = session.ask(n, person)
        new = [question(session, each) for each in found if each.key not in have]
        return {"questions": new, "open": [each.key for each in found]}

    @app.post("/api/answers")
    def answers(batch: Batch) -> dict[str, Any]:
        kept, refused = [], []
        for entry in batch.answers:
            words = _told(session, entry, batch.person)
            if words is None:
                kept.append(entry["id"])
            else:
                refused.append(
                    {"id": entry.get("id") if isinstance(entry, Mapping) else None, "words": words}
                )
        return {"kept": kept, "refused": refused}

    @app.post("/api/skip")
    def skip(body: Skipped) -> dict[str, Any]:
        session.skip(body.key, body.person)
        return {}

    @app.post("/api/undo")
    def undo(body: Body) -> dict[str, Any]:
        back = session.undo(body.person)
        return {"question": None if back is None else question(session, back)}

    @app.post("/api/release")
    def release(body: Body) -> dict[str, Any]:
        session.release(body.person)
        return {}

    @app.get("/api/content/{key}")
    def content(key: str, small: bool = False) -> Response:
        shown = session.content(key)
        if shown.kind != "image":
            raise NoPageError(f"the example {key} is no picture")
        shown = small_picture(shown) if small else shown
        return Response(shown.data, media_type=shown.mime, headers=PICTURE)


def serve_looks(app: FastAPI, session: Session, seen: Figures) -> None:
    """What can be looked at: suggestions, the grid, answers to review, and how it goes."""

    @app.get("/api/suggestion/{key}")
    def suggested(key: str) -> dict[str, Any]:
        return suggestion_view(session.suggestion(key))

    @app.get("/api/grid")
    def grid(name: Annotated[str, Query(alias="class")], n: Many = 24) -> dict[str, Any]:
        return {"examples": [card(session, each) for each in session.grid(name, n)]}

    @app.get("/api/doubts")
    def doubts(n: Many = 50) -> dict[str, Any]:
        return {"examples": [doubt(session, each) for each in session.doubts(n)]}

    @app.get("/api/disagreements")
    def disagreements(n: Many = 50) -> dict[str, Any]:
        return {"examples": [disagreement(session, each) for each in session.disagreements()[:n]]}

    @app.get("/api/answers")
    def all_answers(search: str = "", page: Annotated[int, Query(ge=1)] = 1) -> dict[str, Any]:
        return entries_view(session, session.answers(search, page))

    @app.get("/api/progress")
    def progress() -> dict[str, Any]:
        return seen.now()


def serve_corrections(app: FastAPI, session: Session, seen: Figures) -> None:
    """What changes answers or classes after the fact, and training at once."""

    @app.post("/api/correct")
    def correct(body: Corrected) -> dict[str, Any]:
        session.correct(body.key, as_answer(body.answer), body.person)
        return {}

    @app.post("/api/classes/rename")
    def rename(body: Renamed) -> dict[str, Any]:
        session.rename_class(body.name, body.to)
        seen.expire()
        return {}

    @app.post("/api/classes/merge")
    def merge(body: Merged) -> dict[str, Any]:
        session.merge_class(body.name, body.into)
        seen.expire()
        return {}

    @app.post("/api/classes/add")
    def add(body: Added) -> dict[str, Any]:
        session.add_class(body.name)
        seen.expire()
        return {}

    @app.post("/api/train")
    def train(_: Body) -> dict[str, Any]:
        session.want_round()
        seen.expire()
        return {}


def as_answer(said: str | float | list[str]) -> Answer:
    """An answer as JSON has it, as the session takes it."""
    return tuple(said) if isinstance(said, list) else said


def _told(session: Session, entry: Any, person: str) -> str | None:
    """Put an answer on disk; words where it cannot be one."""
    try:
        given = Given.model_validate(entry)
        session.tell(given.key, as_answer(given.answer), person, given.seconds, given.id)
    except ValidationError as wrong:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong.errors())
    except (ValueError, UnknownKeyError) as wrong:
        return str(wrong)
    return None
