"""The server of the labeling page: a thin layer of JSON over a `Session`, behind a `Guard`.

Nothing here knows a path of the data: examples are named by their keys, and the session reads them.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import DBAPIError

from jostle.labeling.answers import Answer, assign_keys, clean_person_name
from jostle.labeling.audit import HeldFigures
from jostle.labeling.review import GridOrder
from jostle.labeling.server.people import Sender, check_role, current_role, signed_in
from jostle.labeling.server.routes import (
    Key,
    KeyBody,
    PersonBody,
    add_assets,
    add_copy_routes,
    add_find_routes,
    add_guide_routes,
    add_remark_routes,
    disagreement_json,
    doubt_json,
    entry_json,
    load_template,
    question_json,
    suggestions_json,
    tile_json,
    to_json,
)
from jostle.labeling.server.security import PICTURE_HEADERS, SecurityMiddleware, ServerAuth
from jostle.labeling.session import Session
from jostle.labeling.sources.contents import digest
from jostle.labeling.sources.index import GoneError
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.bulk import BulkAnswer, tell_many, undo_bulk

DISK_FULL = ("disk is full", "no space left")  # words of SQLite, PostgreSQL and systems
FRESH_SECONDS = 1.0  # seconds that figures are shown before they are computed again
REST_FACTOR = 20  # times as long as the computing took that nothing is computed: people who answer come first

Name = Annotated[str, Field(min_length=1, max_length=200)]
FewQuery = Annotated[int, Query(ge=0, le=20)]
KeysQuery = Annotated[list[Key], Query(max_length=100)]
ManyQuery = Annotated[int, Query(ge=1, le=200)]


class AnswerBody(BaseModel):
    """One answer; the page made its id."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(min_length=8, max_length=64)]
    key: Key
    answer: str | float | list[str]
    seconds: float | None = Field(default=None, ge=0, le=86400)
    bulk: Annotated[str, Field(min_length=8, max_length=64)] | None = None  # of answers given at once


class AnswersBody(PersonBody):
    """Answers in the order they were given; each is checked on its own."""

    answers: Annotated[list[Any], Field(max_length=200)]


class BulkBody(PersonBody):
    """Answers given at once, to undo."""

    bulk: Annotated[str, Field(min_length=8, max_length=64)]


class CorrectionBody(KeyBody):
    """Answer in place of another."""

    answer: str | float | list[str]


class ClassBody(PersonBody):
    """Class to add."""

    name: Name


class RenameBody(ClassBody):
    """Class and its new name."""

    to: Name


class MergeBody(ClassBody):
    """Class to merge into another."""

    into: Name


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


class NoPageError(LookupError):
    """A page or file that this server does not have."""


def create_app(session: Session, title: str) -> FastAPI:
    """Create the page and its API without security checks."""
    app = FastAPI(
        title="jostle label",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(check_role)],
    )
    add_page_routes(app, session, title)
    add_question_routes(app, session)
    seen = ProgressCache(HeldFigures(lambda: to_json(session.progress())).get)
    add_view_routes(app, session, seen)
    add_correction_routes(app, session, seen)
    add_find_routes(app, session)
    add_remark_routes(app, session)
    add_guide_routes(app, session)
    add_copy_routes(app, session)
    for wrong in (UnknownKeyError, GoneError, NoPageError, ValueError):
        app.add_exception_handler(wrong, _respond_error)
    for failure in (DBAPIError, OSError):
        app.add_exception_handler(failure, _respond_storage_error)
    return app


def create_server_app(session: Session, auth: ServerAuth, title: str) -> SecurityMiddleware:
    """Create the application that a server runs."""
    return SecurityMiddleware(create_app(session, title), auth, store=session.store)


def _respond_storage_error(_: Request, reason: Exception) -> Response:
    """Say why nothing can be stored; pages keep their answers, and send them again."""
    words = f"{getattr(reason, 'orig', reason)}"
    full = getattr(reason, "errno", None) == errno.ENOSPC or any(each in words.lower() for each in DISK_FULL)
    if full:
        detail = (
            "The disk of the server is full. Free some space: answers are kept in this browser until then."
        )
        return JSONResponse({"detail": detail}, status_code=507)
    return JSONResponse({"detail": f"The server cannot reach its data: {words}"}, status_code=503)


def _respond_error(_: Request, reason: Exception) -> Response:
    missing = isinstance(reason, UnknownKeyError | GoneError | NoPageError)
    return JSONResponse({"detail": str(reason)}, status_code=404 if missing else 400)


def add_page_routes(app: FastAPI, session: Session, title: str) -> None:
    """Add the page, its files, and the description of the project."""
    template = load_template("page.html.j2")
    add_assets(app)

    @app.get("/")
    def page(request: Request) -> HTMLResponse:
        of_several = bool(request.scope["root_path"]) and signed_in.get() is None  # and by the server's owner
        home = "/" if of_several else "#label"
        return HTMLResponse(template.render(project=title, role=current_role(), home=home))

    @app.get("/api/project")
    def project() -> dict[str, Any]:
        chosen = session.book.own_keys()
        keys = assign_keys(list(session.book.classes().names.values()), chosen)
        classes = [{"name": name, "keys": own, "own": chosen.get(name)} for name, own in keys.items()]
        who, place = signed_in.get(), str(session.project.resolve())
        return {
            "id": digest((f"{place} {who.name}" if who else place).encode()),  # a browser keeps things by it
            "person": who and who.name,
            "answers": {"kind": session.kind, "name": session.settings.target, "classes": classes},
        }


def add_question_routes(app: FastAPI, session: Session) -> None:
    """Add questions and answers: two calls, so that an answer does not wait for later questions."""

    @app.get("/api/questions")
    def questions(person: Sender, n: FewQuery = 5, have: KeysQuery = []) -> dict[str, Any]:  # noqa: B006
        """Return the open questions of a person: all keys, and the contents that the page does not have."""
        found = session.ask(n, person)
        new = [question_json(session, each) for each in found if each.key not in have]
        return {"questions": new, "open": [each.key for each in found]}

    @app.post("/api/answers")
    def answers(batch: AnswersBody) -> dict[str, Any]:
        kept, refused = [], []
        for bulk, group in groupby(batch.answers, _bulk_id):
            entries = list(group)
            if bulk is not None and _record_bulk(session, bulk, entries, batch.person):
                kept += [entry["id"] for entry in entries]
                continue
            for entry in entries:  # alone, each of them is right or wrong
                words = _record_answer(session, entry, batch.person)
                if words is None:
                    kept.append(entry["id"])
                else:
                    id = entry.get("id") if isinstance(entry, Mapping) else None
                    refused.append({"id": id, "words": words})
        return {"kept": kept, "refused": refused}

    @app.post("/api/skip")
    def skip(body: KeyBody) -> dict[str, Any]:
        session.skip(body.key, body.person)
        return {}

    @app.post("/api/undo")
    def undo(body: PersonBody) -> dict[str, Any]:
        back = session.undo(body.person)
        if back is None:
            return {"question": None, "answer": None}
        return {"question": question_json(session, back), "answer": to_json(back.answer)}

    @app.post("/api/bulk/undo")
    def undo_many(body: BulkBody) -> dict[str, Any]:
        return {"keys": undo_bulk(session.store, body.bulk, clean_person_name(body.person))}

    @app.post("/api/release")
    def release(body: PersonBody) -> dict[str, Any]:
        session.release(body.person)
        return {}

    @app.get("/api/content/{key}")
    def content(key: str, small: bool = False, stretch: bool = False) -> Response:
        read = session.thumbnail if small else session.stretched if stretch else session.content
        shown = read(key)
        if shown.kind != "image":
            raise NoPageError(f"the example {key} is no picture")
        return Response(shown.data, media_type=shown.mime, headers=PICTURE_HEADERS)


def add_view_routes(app: FastAPI, session: Session, seen: ProgressCache) -> None:
    """Add suggestions, the grid, answers to review, and progress."""

    @app.get("/api/suggestion/{key}")
    def suggested(key: str, person: Sender) -> dict[str, Any]:
        return suggestions_json(session, key, person)

    @app.get("/api/grid")
    def grid(
        name: Annotated[str, Query(alias="class")], n: ManyQuery = 24, order: GridOrder = "surest"
    ) -> dict[str, Any]:
        return {"examples": [tile_json(session, each) for each in session.grid(name, n, order)]}

    @app.get("/api/doubts")
    def doubts(n: ManyQuery = 50) -> dict[str, Any]:
        return {"examples": [doubt_json(session, each) for each in session.doubts(n)]}

    @app.get("/api/disagreements")
    def disagreements(n: ManyQuery = 50) -> dict[str, Any]:
        return {"examples": [disagreement_json(session, each) for each in session.disagreements()[:n]]}

    @app.get("/api/answers")
    def all_answers(search: str = "", page: Annotated[int, Query(ge=1)] = 1) -> dict[str, Any]:
        found = session.answers(search, page)
        shown = [entry_json(session, each) for each in found.entries]
        return {"examples": shown, "total": found.total, "page": found.page, "pages": found.pages}

    @app.get("/api/progress")
    def progress() -> dict[str, Any]:
        return seen.get()


def add_correction_routes(app: FastAPI, session: Session, seen: ProgressCache) -> None:
    """Add corrections, changes of classes, and training at once."""

    @app.post("/api/correct")
    def correct(body: CorrectionBody) -> dict[str, Any]:
        session.correct(body.key, as_answer(body.answer), body.person)
        return {}

    @app.post("/api/classes/rename")
    def rename(body: RenameBody) -> dict[str, Any]:
        session.rename_class(body.name, body.to)
        seen.expire()
        return {}

    @app.post("/api/classes/merge")
    def merge(body: MergeBody) -> dict[str, Any]:
        session.merge_class(body.name, body.into)
        seen.expire()
        return {}

    @app.post("/api/classes/add")
    def add(body: ClassBody) -> dict[str, Any]:
        session.add_class(body.name)
        seen.expire()
        return {}

    @app.post("/api/prove")
    def prove(_: PersonBody) -> dict[str, Any]:
        questions = session.prove()
        seen.expire()
        return {"questions": questions}

    @app.post("/api/train")
    def train(_: PersonBody) -> dict[str, Any]:
        session.request_round()
        seen.expire()
        return {}


def as_answer(said: str | float | list[str]) -> Answer:
    """Return an answer of JSON as the session takes it."""
    return tuple(said) if isinstance(said, list) else said


def _bulk_id(entry: Any) -> str | None:
    found = entry.get("bulk") if isinstance(entry, Mapping) else None
    return found if isinstance(found, str) else None


def _record_bulk(session: Session, bulk: str, entries: Sequence[Any], person: str) -> bool:
    """Record answers in one transaction; return False, with nothing recorded, where one of them is invalid."""
    try:
        given = [AnswerBody.model_validate(entry) for entry in entries]
        many = [BulkAnswer(each.id, each.key, as_answer(each.answer), each.seconds) for each in given]
        tell_many(session, bulk, many, clean_person_name(person))
    except (ValueError, UnknownKeyError):  # a ValidationError is a ValueError
        return False
    return True


def _record_answer(session: Session, entry: Any, person: str) -> str | None:
    """Record an answer; return words where it is invalid."""
    try:
        given = AnswerBody.model_validate(entry)
        answer = as_answer(given.answer)
        if given.bulk is not None:
            one = BulkAnswer(given.id, given.key, answer, given.seconds)
            tell_many(session, given.bulk, [one], clean_person_name(person))
        else:
            session.tell(given.key, answer, person, given.seconds, given.id)
    except ValidationError as wrong:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong.errors())
    except (ValueError, UnknownKeyError) as wrong:
        return str(wrong)
    return None
