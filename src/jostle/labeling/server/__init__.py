"""The server of the labeling page: a thin layer of JSON over a `Session`, behind a check of every request.

Nothing here knows a path of the data: examples are named by their keys, and the session reads them.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from importlib.resources import files
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import DBAPIError

from jostle.labeling.answers import assign_keys, clean_person_name
from jostle.labeling.server.routes import (
    Given,
    Id,
    Key,
    KeyBody,
    PersonBody,
    add_class_routes,
    add_copy_routes,
    add_find_routes,
    add_guide_routes,
    add_remark_routes,
    add_view_routes,
    as_answer,
    question_json,
)
from jostle.labeling.server.security import (
    PICTURE_HEADERS,
    Routes,
    SecurityMiddleware,
    Sender,
    ServerAuth,
    current_role,
    signed_in,
)
from jostle.labeling.session import Session
from jostle.labeling.sources import GoneError
from jostle.labeling.sources.contents import digest
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.edits import BulkAnswer, tell_many, undo_bulk

DISK_FULL = ("disk is full", "no space left")  # words of SQLite, PostgreSQL and systems
ASSETS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

FewQuery = Annotated[int, Query(ge=0, le=20)]
KeysQuery = Annotated[list[Key], Query(max_length=100)]


class AnswerBody(BaseModel):
    """One answer; the page made its id."""

    model_config = ConfigDict(extra="forbid")
    id: Id
    key: Key
    answer: Given
    seconds: float | None = Field(default=None, ge=0, le=86400)
    bulk: Id | None = None  # of answers given at once


class AnswersBody(PersonBody):
    """Answers in the order they were given; each is checked on its own."""

    answers: Annotated[list[Any], Field(max_length=200)]


class BulkBody(PersonBody):
    """Answers given at once, to undo."""

    bulk: Id


def create_app(session: Session, title: str) -> FastAPI:
    """Create the page and its API; roles are checked, tokens are not."""
    app, routes = FastAPI(title="jostle label", docs_url=None, redoc_url=None, openapi_url=None), Routes()
    add_page_routes(routes, session, title)
    add_question_routes(routes, session)
    add_class_routes(routes, session, add_view_routes(routes, session))
    add_find_routes(routes, session)
    add_remark_routes(routes, session)
    add_guide_routes(routes, session)
    add_copy_routes(routes, session)
    for router in (routes.label, routes.review, routes.manage):
        app.include_router(router)
    for wrong in (UnknownKeyError, GoneError, ValueError):
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
    missing = isinstance(reason, UnknownKeyError | GoneError)
    return JSONResponse({"detail": str(reason)}, status_code=404 if missing else 400)


def load_template(name: str) -> Template:
    """Load the template of a page."""
    loader = PackageLoader("jostle.labeling.server")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)


def add_assets(routes: APIRouter | FastAPI) -> None:
    """Add the route of styles, scripts and the icon."""
    assets = {file.name: file.read_bytes() for file in (files("jostle.labeling.server") / "static").iterdir()}

    @routes.get("/static/{name}")
    def asset(name: str) -> Response:
        if name not in assets:
            raise HTTPException(404, f"no file {name!r}")
        return Response(assets[name], media_type=ASSETS[name[name.rfind(".") :]])


def add_page_routes(routes: Routes, session: Session, title: str) -> None:
    """Add the page, its files, and the description of the project."""
    template = load_template("page.html.j2")
    add_assets(routes.label)

    @routes.label.get("/")
    def page(request: Request) -> HTMLResponse:
        of_several = bool(request.scope["root_path"]) and signed_in.get() is None  # and by the server's owner
        home = "/" if of_several else "#label"
        return HTMLResponse(template.render(project=title, role=current_role(), home=home))

    @routes.label.get("/api/project")
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


def add_question_routes(routes: Routes, session: Session) -> None:
    """Add questions and answers: two calls, so that an answer does not wait for later questions."""

    @routes.label.get("/api/questions")
    def questions(person: Sender, n: FewQuery = 5, have: KeysQuery = []) -> dict[str, Any]:  # noqa: B006
        """Return the open questions of a person: all keys, and the contents that the page does not have."""
        found = session.ask(n, person)
        new = [question_json(session, each) for each in found if each.key not in have]
        return {"questions": new, "open": [each.key for each in found]}

    @routes.label.post("/api/answers")
    def answers(body: AnswersBody) -> dict[str, Any]:
        kept, refused = [], []
        for bulk, group in groupby(body.answers, _bulk_id):
            entries = list(group)
            whole = bulk is not None and record_answers(session, entries, body.person) is None
            for entry in entries:  # alone, each of them is right or wrong
                words = None if whole else record_answers(session, [entry], body.person)
                if words is None:
                    kept.append(entry["id"])
                else:
                    id = entry.get("id") if isinstance(entry, Mapping) else None
                    refused.append({"id": id, "words": words})
        return {"kept": kept, "refused": refused}

    @routes.label.post("/api/skip")
    def skip(body: KeyBody) -> dict[str, Any]:
        session.skip(body.key, body.person)
        return {}

    @routes.label.post("/api/undo")
    def undo(body: PersonBody) -> dict[str, Any]:
        back = session.undo(body.person)
        if back is None:
            return {"question": None, "answer": None}
        return {"question": question_json(session, back), "answer": back.answer}

    @routes.label.post("/api/bulk/undo")
    def undo_many(body: BulkBody) -> dict[str, Any]:
        return {"keys": undo_bulk(session.store, body.bulk, clean_person_name(body.person))}

    @routes.label.post("/api/release")
    def release(body: PersonBody) -> dict[str, Any]:
        session.release(body.person)
        return {}

    @routes.label.get("/api/content/{key}")
    def content(key: str, small: bool = False, stretch: bool = False) -> Response:
        shown = session.content(key, "small" if small else "stretched" if stretch else "full")
        if shown.kind != "image":
            raise HTTPException(404, f"the example {key} is no picture")
        return Response(shown.data, media_type=shown.mime, headers=PICTURE_HEADERS)


def _bulk_id(entry: Any) -> str | None:
    found = entry.get("bulk") if isinstance(entry, Mapping) else None
    return found if isinstance(found, str) else None


def record_answers(session: Session, entries: list[Any], person: str) -> str | None:
    """Record an answer, or answers given at once in one transaction.

    Returns:
        What is wrong with one of them, if nothing was recorded; otherwise None.
    """
    try:
        given = [AnswerBody.model_validate(entry) for entry in entries]
        if (bulk := given[0].bulk) is not None:
            many = [BulkAnswer(each.id, each.key, as_answer(each.answer), each.seconds) for each in given]
            tell_many(session, bulk, many, clean_person_name(person))
        else:
            [one] = given
            session.tell(one.key, as_answer(one.answer), person, one.seconds, one.id)
    except ValidationError as wrong:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong.errors())
    except (ValueError, UnknownKeyError) as wrong:
        return str(wrong)
    return None
