"""Label Studio in place of the page: a client of its API, and an ML backend for it.

Questions become tasks, annotations become answers. Label Studio sends an event for each annotation. They go to the
session like any answer, and the background process trains after every batch of them: no event waits for a training.
Label Studio's webhooks carry no password, so the token may also be the first part of the path:
`http://127.0.0.1:9090/TOKEN` is the backend's address. The client uses the standard library alone, because Label
Studio's own package needs old versions of numpy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import or_, select

from jostle.labeling.export import json_files
from jostle.labeling.export.json_files import KEY_FIELD, LOCAL_FILES, Annotation, LabelStudioError, Tags
from jostle.labeling.server.security import App, Receive, Scope, SecurityMiddleware, Send, ServerAuth
from jostle.labeling.session import Session
from jostle.labeling.store import UnknownKeyError
from jostle.labeling.store.schema import events
from jostle.utils.sockets import is_address, make_request

TASKS_PER_CALL = 1000  # tasks in one call, far below what Label Studio takes


class Client:
    """Client of a Label Studio by its address and an access token, old style or new."""

    def __init__(self, url: str, key: str) -> None:
        if not is_address(url):
            raise LabelStudioError(
                f"expected Label Studio's address, such as http://localhost:8080; got {url!r}"
            )
        self.url, self.key, self._bearer = url.rstrip("/"), key, ""

    def project(self, number: int) -> Any:
        """Return a project with its configuration."""
        return self.call("GET", f"/api/projects/{number}/")

    def create(self, title: str, configuration: str) -> int:
        """Create a project; return its number."""
        made = self.call("POST", "/api/projects/", {"title": title[:50], "label_config": configuration})
        return int(made["id"])

    def tasks(self, number: int) -> Any:
        """Return every task of a project with its annotations, by an export, because listing is slow."""
        query = urlencode({"exportType": "JSON", "download_all_tasks": "true"})
        return self.call("GET", f"/api/projects/{number}/export?{query}")

    def push(self, number: int, tasks: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Set tasks, their order and their predictions in a project; return how many are new, and how many updated."""
        there = {each["data"].get(KEY_FIELD): each for each in self.tasks(number)}
        new = [each for each in tasks if each["data"][KEY_FIELD] not in there]
        for start in range(0, len(new), TASKS_PER_CALL):
            self.call("POST", f"/api/projects/{number}/import", new[start : start + TASKS_PER_CALL])
        again = [each for each in tasks if each["data"][KEY_FIELD] in there]
        for task in again:
            old = there[task["data"][KEY_FIELD]]
            self.call("PATCH", f"/api/tasks/{old['id']}/", {"data": {**old["data"], **task["data"]}})
            known = {each.get("model_version") for each in old.get("predictions") or []}
            for prediction in (each for each in task["predictions"] if each["model_version"] not in known):
                self.call("POST", "/api/predictions/", {"task": old["id"], **prediction})
        return len(new), len(again)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one call with the access token; errors carry Label Studio's words."""
        return self.send(method, path, body, {"authorization": self.authorization()})

    def authorization(self) -> str:
        """Return the header of a token; a JWT is exchanged for one that is valid for some minutes."""
        if self.key.count(".") != 2:
            return f"Token {self.key}"
        if not self._bearer:
            reply = self.send("POST", "/api/token/refresh/", {"refresh": self.key}, {})
            self._bearer = str(reply["access"])
        return f"Bearer {self._bearer}"

    def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """Send a request, and read JSON."""
        request = make_request(method, self.url + path, body, headers)
        try:
            with urlopen(request, timeout=120) as reply:  # nosec B310  # http or https, see above
                return json.loads(reply.read() or b"null")
        except HTTPError as wrong:
            said = wrong.read(500).decode("utf-8", "replace")
            hint = "; is the key right?" if wrong.code in (401, 403) else ""
            raise LabelStudioError(
                f"Label Studio refused {method} {path} ({wrong.code}): {said}{hint}"
            ) from None
        except (URLError, TimeoutError, json.JSONDecodeError) as wrong:
            reason = getattr(wrong, "reason", wrong)
            raise LabelStudioError(f"no Label Studio answers at {self.url}: {reason}") from None


TASK_PERSON = "label-studio"  # whose questions they are until somebody annotates them


def make_tasks(session: Session, n: int, tags: Tags, images: str = LOCAL_FILES) -> list[dict[str, Any]]:
    """Return the next n questions as tasks with predictions; nobody else is asked them meanwhile."""
    tasks = []
    for order, each in enumerate(session.ask(n, TASK_PERSON)):
        guess = predict_example(session, each.key, tags)
        tasks.append(json_files.make_task(session.content(each.key), order, tags, guess, images))
    return tasks


def predict_example(session: Session, key: str, tags: Tags) -> dict[str, Any] | None:
    """Return the prediction of an example; None before there is a model, and for audited examples."""
    found = session.suggestion(key)
    if found is None:
        return None
    return json_files.make_prediction(found.answer, found.confidence, f"round-{found.round}", tags)


def model_version(session: Session) -> str:
    """Return the name of the current model."""
    return f"round-{session.store.last_model()}"


def enter_annotation(session: Session, said: Annotation) -> None:
    """Record an annotation as an answer, or as a skip."""
    if said.answer is None:
        session.skip(said.key, said.person, id=said.id)
    else:
        session.tell(said.key, said.answer, said.person, said.seconds, said.id)


def import_annotations(session: Session, found: list[Annotation]) -> tuple[int, int, list[str]]:
    """Record the annotations of an export; return the numbers of answers and skips, and the errors."""
    entered: list[bool] = []  # for each annotation, whether it is an answer
    wrong: list[str] = []
    for said in found:
        try:
            enter_annotation(session, said)
            entered.append(said.answer is not None)
        except (UnknownKeyError, ValueError) as reason:
            wrong.append(str(reason))
    return sum(entered), len(entered) - sum(entered), wrong


CALLS = {"health", "setup", "versions", "predict", "webhook"}  # any other first part of a path is a token


class PredictBody(BaseModel):
    """Request for predictions; unknown fields are ignored."""

    tasks: list[dict[str, Any]]
    label_config: str = ""


class WebhookEvent(BaseModel):
    """Event of an annotation; for deleted ones Label Studio sends the numbers only."""

    action: str
    annotation: dict[str, Any] | None = None
    annotations: list[dict[str, Any]] = []
    task: dict[str, Any] | None = None


def create_backend_app(session: Session, auth: ServerAuth) -> App:
    """Create the application of the backend: the token is Label Studio's user and password, or in the path."""
    app = FastAPI(title="jostle labelstudio serve", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "UP", "model_class": "jostle"}

    @app.post("/setup")
    def setup() -> dict[str, Any]:
        return {"model_version": model_version(session)}

    @app.get("/versions")
    def versions() -> dict[str, Any]:
        return {"versions": [model_version(session)]}

    @app.post("/predict")
    def predict(body: PredictBody) -> dict[str, Any]:
        shown = Tags(kind=session.kind)
        if body.label_config:
            shown = json_files.parse_tags(body.label_config, session.kind)
        return {"results": [predict_task(session, task, shown) for task in body.tasks]}

    @app.post("/webhook")
    def webhook(event: WebhookEvent) -> dict[str, Any]:
        return {"status": handle_event(session, event)}

    # 64 MiB at most: Label Studio sends whole pages of tasks
    return accept_token_in_path(SecurityMiddleware(app, auth, 64 * 1024 * 1024), auth)


def accept_token_in_path(app: App, auth: ServerAuth) -> App:
    """Wrap an application so that the first part of the path may be the token."""

    async def opened(scope: Scope, receive: Receive, send: Send) -> None:
        first, _, rest = scope.get("path", "").removeprefix("/").partition("/")
        bare = all(name != b"authorization" for name, _ in scope.get("headers", []))
        if scope["type"] == "http" and (
            auth.is_valid_token(first) or (bare and first and first not in CALLS)
        ):
            shown = (b"authorization", f"Bearer {first}".encode())
            others = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            path = f"/{rest}"
            scope = {**scope, "path": path, "raw_path": path.encode(), "headers": [*others, shown]}
        await app(scope, receive, send)

    return opened


def predict_task(session: Session, task: dict[str, Any], shown: Tags) -> dict[str, Any]:
    """Return the prediction of a task; an empty one for a task that is not known."""
    key = (task.get("data") or {}).get(KEY_FIELD)
    try:
        found = predict_example(session, key, shown) if isinstance(key, str) else None
    except UnknownKeyError:
        found = None
    return found or {"result": [], "score": 0.0, "model_version": model_version(session)}


def handle_event(session: Session, event: WebhookEvent) -> str:
    """Record an event; return its outcome in a word."""
    if event.action == "START_TRAINING":
        session.request_round()
        return "training"
    if event.action in ("ANNOTATIONS_DELETED", "ANNOTATION_DELETED"):  # of many, of one
        known = delete_annotations(session, [each.get("id") for each in event.annotations])
        return "deleted" if known else "unknown"
    if event.action not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED") or event.annotation is None:
        return "ignored"
    said = json_files.read_annotation(event.task or {}, event.annotation, session.kind)
    if said is None:
        return "ignored"
    try:
        enter_annotation(session, said)
    except UnknownKeyError:
        return "unknown"
    except ValueError as wrong:  # such as a class that this project does not have
        return f"refused: {wrong}"
    return "kept"


def delete_annotations(session: Session, numbers: list[Any]) -> int:
    """Withdraw deleted annotations; return how many were known."""
    ids = [events.c.id.startswith(json_files.id_prefix(number), autoescape=True) for number in numbers]
    rows = session.store.rows(select(events.c.key, events.c.person).where(or_(False, *ids)))
    known = {tuple(row) for row in rows}
    for key, person in sorted(known):
        session.skip(key, person)
    return len(known)
