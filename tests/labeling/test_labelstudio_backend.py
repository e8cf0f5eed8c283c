"""A session and Label Studio: tasks out, annotations in, through a stand-in for its API, and as its ML backend."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from event_loops import finish

from jostle.labeling import Answers, Session, labelstudio
from jostle.labeling.export.json_files import (
    KEY_FIELD,
    ORDER_FIELD,
    LabelStudioError,
    make_config,
    make_result,
    parse_tags,
    read_annotations,
)
from jostle.labeling.labelstudio import Client, create_backend_app
from jostle.labeling.server.security import ServerAuth

OLD_KEY, NEW_KEY = "0123abcd", "head.body.tail"
TOKEN = "backend-token"


class Studio:
    """The calls of Label Studio that are used, in memory."""

    def __init__(self) -> None:
        self.projects: dict[int, dict[str, Any]] = {}
        self.tasks: dict[int, dict[str, Any]] = {}
        self.calls: list[str] = []

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        parts = path.strip("/").split("/")
        if parts == ["api", "projects"]:
            number = len(self.projects) + 1
            self.projects[number] = {"id": number, **body}
            return 201, self.projects[number]
        if parts == ["api", "predictions"]:
            self.tasks[body["task"]]["predictions"].append(body)
            return 201, body
        if parts[:2] == ["api", "tasks"]:
            self.tasks[int(parts[2])]["data"] = body["data"]
            return 200, {}
        number = int(parts[2])
        if number not in self.projects:
            return 404, {"detail": "No Project matches the given query."}
        if parts[3:] == ["import"]:
            for each in body:
                made = len(self.tasks) + 1
                self.tasks[made] = {"id": made, "project": number, "annotations": [], **each}
            return 201, {"task_count": len(body)}
        if parts[3:] == ["export"]:
            assert query == {"exportType": ["JSON"], "download_all_tasks": ["true"]}
            return 200, [each for each in self.tasks.values() if each["project"] == number]
        return 200, self.projects[number]

    def annotate(self, number: int, answer: Any, session: Session, **more: Any) -> dict[str, Any]:
        shown = parse_tags(self.projects[1]["label_config"], session.kind)
        results = [] if answer is None else [make_result(answer, shown)]
        made = {"id": 100 + number, "result": results, "was_cancelled": answer is None, "completed_by": 1,
                "lead_time": 2.0, "updated_at": f"2026-01-{number:02}", **more}  # fmt: skip
        self.tasks[number]["annotations"] = [made]
        return {"action": "ANNOTATION_CREATED", "annotation": made, "task": self.tasks[number]}


@pytest.fixture
def studio() -> Iterator[tuple[Studio, str]]:
    held = Studio()

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null")
            place = urlsplit(self.path)
            if place.path == "/api/token/refresh/":
                status, said = (200, {"access": "for-a-while"}) if body == {"refresh": NEW_KEY} else (401, {})
            elif self.headers["authorization"] not in (f"Token {OLD_KEY}", "Bearer for-a-while"):
                status, said = 401, {"detail": "Invalid token."}
            else:
                status, said = held.answer(self.command, place.path, parse_qs(place.query), body)
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = handle_one  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield held, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    lines = [f"{i},{i / 40}" for i in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,size", *lines]) + "\n", encoding="utf-8")
    answers = Answers("one", ("small", "large"))
    opened = Session.open(tmp_path / "rows.csv", project=tmp_path / "project", answers=answers, audit=0.0)
    opened.index.refresh()
    yield opened
    opened.close()


def set_up(studio: Any, session: Session, n: int, key: str = OLD_KEY) -> Any:
    """Push questions to a new project; return what is held there, a client, the project's number and its tags."""
    held, url = studio
    client = Client(url, key)
    number = client.create("rows", make_config(session.kind, session.source.kind, session.classes()))
    tags = parse_tags(client.project(number)["label_config"], session.kind)
    assert client.push(number, labelstudio.make_tasks(session, n, tags)) == (n, 0)
    return held, client, number, tags


@pytest.mark.parametrize("key", [OLD_KEY, NEW_KEY])
def test_questions_become_tasks_and_annotations_answers(studio: Any, session: Session, key: str) -> None:
    held, client, number, _ = set_up(studio, session, 6, key)
    asked = [each["data"] for each in held.tasks.values()]
    assert [data[ORDER_FIELD] for data in asked] == list(range(6))
    assert asked[0]["row"]["size"]

    held.annotate(1, "small", session)
    held.annotate(2, "large", session, completed_by={"id": 3, "email": "bo@example.org"})
    held.annotate(3, None, session)
    for _ in range(2):  # what was read before changes nothing
        found = read_annotations(client.tasks(number), "one")
        assert labelstudio.import_annotations(session, found) == (2, 1, [])
    said = {each.question.key: (each.person, each.act, each.answer) for each in session.answers().entries}
    assert said == {
        asked[0][KEY_FIELD]: ("labelstudio-1", "answer", "small"),
        asked[1][KEY_FIELD]: ("bo@example.org", "answer", "large"),
        asked[2][KEY_FIELD]: ("labelstudio-1", "skip", None),
    }


def test_tasks_that_are_there_get_their_new_place_and_prediction(studio: Any, session: Session) -> None:
    held, client, number, shown = set_up(studio, session, 4)
    assert all(not each["predictions"] for each in held.tasks.values()), "no model, no prediction"
    for question in session.ask(20, "Ada"):
        size = float(session.content(question.key).fields["size"])  # type: ignore[index]
        session.tell(question.key, "large" if size > 0.5 else "small", "Ada")
    session.train()
    assert client.push(number, labelstudio.make_tasks(session, 4, shown)) == (0, 4)
    assert len(held.tasks) == 4
    for each in held.tasks.values():
        (guess,) = each["predictions"]
        assert guess["model_version"] == labelstudio.model_version(session)
        assert guess["result"][0]["value"]["choices"][0] in ("small", "large")
    before = len(held.calls)
    client.push(number, labelstudio.make_tasks(session, 4, shown))
    assert not [call for call in held.calls[before:] if "predictions" in call], "one prediction of each model"


def test_what_does_not_fit_is_said(studio: Any, session: Session) -> None:
    _, url = studio
    for address, key, words in (
        (url, OLD_KEY, r"refused GET /api/projects/9/ \(404\)"),
        (url, "wrong", "is the key right"),
        ("http://127.0.0.1:9", OLD_KEY, "no Label Studio answers"),
        ("localhost", OLD_KEY, "expected Label Studio's address"),
    ):
        with pytest.raises(LabelStudioError, match=words):
            Client(address, key).project(9)
    held, client, number, _ = set_up(studio, session, 2)
    held.annotate(1, "medium", session)
    held.annotate(2, "small", session)
    held.tasks[2]["data"][KEY_FIELD] = "f" * 32
    found = read_annotations(client.tasks(number), "one")
    answers, skips, wrong = labelstudio.import_annotations(session, found)
    assert (answers, skips) == (0, 0)
    assert "unknown class 'medium'" in wrong[0]
    assert "no example of this project" in wrong[1]


def call(app: Any, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """A request to an ASGI application."""
    sent: list[Any] = []
    shown = {"host": "127.0.0.1", "content-type": "application/json", **headers}
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": [(name.encode(), value.encode()) for name, value in shown.items()]}  # fmt: skip

    async def receive() -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    finish(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"]) if sent[0]["status"] == 200 else None


def test_the_backend_predicts_and_hears(studio: Any, session: Session) -> None:
    held, _, number, _ = set_up(studio, session, 12)
    app = create_backend_app(session, ServerAuth(TOKEN, 9090))

    assert call(app, "GET", "/health")[0] == 401
    assert call(app, "GET", f"/{TOKEN}/health", host="evil.example")[0] == 421
    assert call(app, "GET", f"/{TOKEN}/health") == (200, {"status": "UP", "model_class": "jostle"})
    reply = call(app, "POST", "/setup", {}, authorization=f"Bearer {TOKEN}")
    assert reply == (200, {"model_version": "round-0"})
    assert call(app, "GET", f"/{TOKEN}/versions")[1] == {"versions": ["round-0"]}
    tasks = {
        "tasks": list(held.tasks.values()),
        "label_config": held.projects[number]["label_config"],
        "params": {},
    }
    nothing = {"result": [], "score": 0.0, "model_version": "round-0"}
    assert call(app, "POST", f"/{TOKEN}/predict", tasks)[1]["results"] == [nothing] * 12

    for task in list(held.tasks):
        large = float(held.tasks[task]["data"]["row"]["size"]) > 0.5
        event = held.annotate(task, "large" if large else "small", session)
        for _ in range(2):  # it may be sent twice
            assert call(app, "POST", f"/{TOKEN}/webhook", event) == (200, {"status": "kept"})
    assert len(session.labels()) == 12
    session.train()
    guesses = call(app, "POST", f"/{TOKEN}/predict", tasks)[1]["results"]
    assert {each["model_version"] for each in guesses} == {labelstudio.model_version(session)}
    assert all(each["result"][0]["from_name"] == "label" for each in guesses)


def test_the_backend_hears_changes_deletions_and_nothing_of_others(studio: Any, session: Session) -> None:
    held, *_ = set_up(studio, session, 2)
    app = create_backend_app(session, ServerAuth(TOKEN, 9090))

    def hear(event: Any) -> str:
        return str(call(app, "POST", f"/{TOKEN}/webhook", event)[1]["status"])

    key = held.tasks[1]["data"][KEY_FIELD]
    assert hear(held.annotate(1, "small", session)) == "kept"
    changed = held.annotate(1, "large", session, updated_at="2026-02-01")
    assert hear({**changed, "action": "ANNOTATION_UPDATED"}) == "kept"
    assert session.labels() == {key: "large"}
    assert hear({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 101}]}) == "deleted"
    assert session.labels() == {}
    assert hear({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 10}]}) == "unknown"
    assert hear({"action": "PROJECT_UPDATED", "project": {}}) == "ignored"
    assert hear({**changed, "task": {"data": {"image": "of others"}}}) == "ignored"
    assert hear({**changed, "task": {"data": {KEY_FIELD: "f" * 32}}}) == "unknown"
    assert "unknown class" in hear(held.annotate(2, "medium", session))
    assert hear({"action": "START_TRAINING"}) == "training"
    assert session.store.setting("round wanted") == session.store.last_event()
