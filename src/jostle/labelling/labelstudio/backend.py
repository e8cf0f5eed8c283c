"""A Label Studio ML backend: predictions out, annotations in.

Label Studio sends an event for each annotation. They go to the session like any answer, and the background trains after
every batch of them: no event waits for a training. Label Studio's webhooks carry no password, so the token may also be
the first part of the path: `http://127.0.0.1:9090/TOKEN` is what to enter as the backend's address.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from sqlalchemy import select

from jostle.labelling.labelstudio.exchange import enter_annotation, predicted, version
from jostle.labelling.labelstudio.formats import KEY, Tags, annotation, prefix, tags
from jostle.labelling.schema import acts
from jostle.labelling.security import App, Door, Guard, Receive, Scope, Send
from jostle.labelling.session import Session
from jostle.labelling.store import UnknownKeyError

LARGEST_BODY = 64 * 1024 * 1024  # bytes; Label Studio sends whole pages of tasks


class Predict(BaseModel):
    """What Label Studio sends for predictions; what else it sends is passed over."""

    model_config = ConfigDict(extra="ignore")
    tasks: list[dict[str, Any]]
    label_config: str = ""


class Event(BaseModel):
    """What Label Studio tells of annotations; of deleted ones it sends the numbers only."""

    model_config = ConfigDict(extra="ignore")
    action: str
    annotation: dict[str, Any] | None = None
    annotations: list[dict[str, Any]] = []
    task: dict[str, Any] | None = None


def backend_app(session: Session) -> FastAPI:
    """The backend's calls, without a guard."""
    app = FastAPI(title="jostle labelstudio serve", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "UP", "model_class": "jostle"}

    @app.post("/setup")
    def setup() -> dict[str, Any]:
        return {"model_version": version(session)}

    @app.get("/versions")
    def versions() -> dict[str, Any]:
        return {"versions": [version(session)]}

    @app.post("/predict")
    def predict(body: Predict) -> dict[str, Any]:
        shown = tags(body.label_config, session.kind) if body.label_config else Tags(kind=session.kind)
        return {"results": [model_result(session, task, shown) for task in body.tasks]}

    @app.post("/webhook")
    def webhook(event: Event) -> dict[str, Any]:
        return {"status": heard(session, event)}

    return app


def guarded_backend(session: Session, door: Door) -> App:
    """What a server runs: the token may come as Label Studio's user and password, or in the path."""
    return in_path(Guard(backend_app(session), door, LARGEST_BODY), door)


def in_path(app: App, door: Door) -> App:
    """An application that takes a first part of the path that is the token for the token."""

    async def opened(scope: Scope, receive: Receive, send: Send) -> None:
        first, _, rest = scope.get("path", "").removeprefix("/").partition("/")
        if scope["type"] == "http" and door.knows(first):
            shown = (b"authorization", f"Bearer {first}".encode())
            others = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            path = f"/{rest}"
            scope = {**scope, "path": path, "raw_path": path.encode(), "headers": [*others, shown]}
        await app(scope, receive, send)

    return opened


def model_result(session: Session, task: dict[str, Any], shown: Tags) -> dict[str, Any]:
    """What the model says of a task; nothing of one that it does not know."""
    key = (task.get("data") or {}).get(KEY)
    try:
        found = predicted(session, key, shown) if isinstance(key, str) else None
    except UnknownKeyError:
        found = None
    return found or {"result": [], "score": 0.0, "model_version": version(session)}


def heard(session: Session, event: Event) -> str:
    """Take in an event; what became of it, in a word."""
    if event.action == "START_TRAINING":
        session.want_round()
        return "training"
    if event.action in ("ANNOTATIONS_DELETED", "ANNOTATION_DELETED"):  # of many, of one
        return "deleted" if deleted(session, [each.get("id") for each in event.annotations]) else "unknown"
    if event.action not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED") or event.annotation is None:
        return "ignored"
    said = annotation(event.task or {}, event.annotation, session.kind)
    if said is None:
        return "ignored"
    try:
        enter_annotation(session, said)
    except UnknownKeyError:
        return "unknown"
    except ValueError as wrong:  # such as a class that this project does not have
        return f"refused: {wrong}"
    return "kept"


def deleted(session: Session, numbers: list[Any]) -> int:
    """Annotations that were deleted: their people said nothing. How many were known."""
    known: set[tuple[str, str]] = set()
    with session.store.reading() as tx:
        for number in numbers:
            made = select(acts.c.key, acts.c.person).where(
                acts.c.id.startswith(prefix(number), autoescape=True)
            )
            known |= {(row.key, row.person) for row in tx.execute(made)}
    for key, person in sorted(known):
        session.skip(key, person)
    return len(known)
