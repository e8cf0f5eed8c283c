"""The server through a real socket: what it gives, and what it refuses."""

import csv
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from running_server import Running
from sqlalchemy import event
from tools.serving import TOKEN, Person

from jostle.labeling import Answers, Session

SCRIPT = "<script>alert(1)</script>"
CLASSES = ("good", SCRIPT, "=cmd|' /C calc'!A0")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with (tmp_path / "tickets.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([[i, f"ticket {i} {SCRIPT}"] for i in range(40)])
    opened = Session.open(
        tmp_path / "tickets.csv", project=tmp_path / "project", answers=Answers("one", CLASSES)
    )
    yield opened
    opened.close()


@pytest.fixture
def ada(session: Session) -> Iterator[Person]:
    running = Running(session, SCRIPT)
    yield Person("Ada", running.port)
    running.stop()


def raw(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """A request as it is, with nothing added but a length."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    line.request(method, path, body, headers)
    reply = line.getresponse()
    found = reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    line.close()
    return found


ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def test_the_page_needs_nothing_from_elsewhere(ada: Person) -> None:
    static = Path(__file__).parents[2] / "src" / "jostle" / "labeling" / "server" / "static"
    page = raw(ada.port, "GET", "/", **ALLOWED)[2].decode()
    texts = {"/": page} | {f"/static/{file.name}": file.read_text() for file in static.iterdir()}
    kinds = {"": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for name, text in texts.items():
        status, headers, _ = raw(ada.port, "GET", name, **ALLOWED)
        assert (status, headers["content-type"].split(";")[0]) == (200, kinds[Path(name).suffix])
        away = set(re.findall(r"""["'(](?:https?:)?//[^"')]+""", text)) - {'"http://www.w3.org/2000/svg'}
        assert not away
        assert "innerHTML" not in text
        assert " style=" not in page


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/static/../server.py", "/static/..%2Fserver.py", "/static/%2e%2e/server.py", "/static/",
     "/api/content/..%2F..%2Ftickets.csv", "/api/content/tickets.csv", "/api/content/%2Fetc%2Fpasswd", "/tickets.csv",
     "/project/labels.db", "/api/content/" + "0" * 32, "/docs", "/openapi.json", "//evil.example/x"],
)  # fmt: skip
def test_no_path_leads_out(ada: Person, path: str) -> None:
    assert raw(ada.port, "GET", path, **ALLOWED)[0] == 404


def test_bodies_that_are_too_large_or_not_json(ada: Person) -> None:
    sent = {"Content-Type": "application/json", **ALLOWED}
    assert raw(ada.port, "POST", "/api/answers", b" " * 300_000, **sent)[0] == 413
    for body in (b"", b"{", b"[]", b'{"person": 3}', b'{"person": "", "answers": []}'):
        assert raw(ada.port, "POST", "/api/answers", body, **sent)[0] == 422
    # a form is what another site's page could post without asking
    form = {"Content-Type": "application/x-www-form-urlencoded", **ALLOWED}
    assert raw(ada.port, "POST", "/api/answers", b'{"person": "Eve", "answers": []}', **form)[0] == 422


def test_an_answer_is_on_disk_once_however_often_it_is_sent(ada: Person, session: Session) -> None:
    key = ada.questions(1)[0]["key"]
    replies = [ada.answer(key, "good", id="made-by-a-client") for _ in range(3)]
    assert [reply["kept"] for reply in replies] == [["made-by-a-client"]] * 3
    other = ada.questions(1)[0]["key"]
    refused = ada.answer(other, "good", id="made-by-a-client")["refused"]
    assert "taken" in refused[0]["words"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"answer": "god"}, "did you mean 'good'"),
        ({"answer": 3.5}, "expected the name of one class"),
        ({"answer": ["good"]}, "expected the name of one class"),
        ({"key": "nothing"}, "no example of this project"),
        ({"seconds": -1}, "seconds"),
        ({"id": "short"}, "id"),
        ({"more": 1}, "more"),
    ],
)
def test_one_bad_answer_spoils_no_other(ada: Person, entry: dict[str, Any], words: str) -> None:
    first, second = ada.questions(2)
    good = {"id": "good-answer", "key": first["key"], "answer": "good", "seconds": 1.0}
    bad = {"id": "bad-answer", "key": second["key"], "answer": "good", "seconds": 1.0, **entry}
    status, reply = ada.call("POST", "/api/answers", {"person": "Ada", "answers": [bad, good]})
    assert status == 200
    assert reply["kept"] == ["good-answer"]
    assert words in reply["refused"][0]["words"]


def test_questions_that_are_there_are_not_sent_again_and_those_lost_are_named(
    ada: Person, session: Session
) -> None:
    first, *rest = [each["key"] for each in ada.questions(5)]
    ada.answer(first, "good")
    reply = asked(ada, rest)
    assert [each["key"] for each in reply["questions"]] == reply["open"][4:]
    assert reply["open"][:4] == rest
    assert len(set(reply["open"])) == 5

    session.release("Ada")  # her leases end, and Bo is asked what she had
    bo = [each["key"] for each in Person("Bo", ada.port).questions(5)]
    ada.answer(rest[0], "good")
    again = asked(ada, rest)
    assert not set(again["open"]) & {*bo, *rest}
    assert [each["key"] for each in again["questions"]] == again["open"]
    assert "open" not in ada.answer(again["open"][0], "good"), "who did not ask keeps what they have"


def asked(person: Person, have: list[str]) -> Any:
    """What the server replies to somebody who has some questions."""
    query = urlencode({"person": person.name, "n": 5, "have": have}, doseq=True)
    return person.call("GET", f"/api/questions?{query}")[1]


def test_undo_and_skip(ada: Person) -> None:
    first = ada.questions(1)[0]["key"]
    ada.answer(first, "good")
    status, told = ada.call("POST", "/api/undo", {"person": "Ada"})
    assert (status, told["answer"], told["question"]["key"]) == (200, "good", first)
    assert ada.call("POST", "/api/skip", {"person": "Ada", "key": first})[0] == 200
    questions = ada.questions(3)
    assert len(questions) == 3
    assert first not in {each["key"] for each in questions}
    assert ada.call("POST", "/api/undo", {"person": "Nobody"})[1]["question"] is None
    assert ada.call("POST", "/api/skip", {"person": "Ada", "key": "nothing"})[0] == 404
    json.dumps(questions)


def test_a_full_disk_is_told_in_words(session: Session, ada: Person) -> None:
    [question] = ada.questions(1)
    with session.store.read_transaction() as tx:
        pages = int(tx.exec_driver_sql("PRAGMA page_count").scalar_one())
    event.listen(
        session.store.engine, "checkout", lambda line, *_: line.execute(f"PRAGMA max_page_count = {pages}")
    )
    for _ in range(2000):
        body = {"person": "Ada", "key": question["key"], "answer": "good"}
        status, told = ada.call("POST", "/api/correct", body)
        if status != 200:
            break
    assert status == 507
    assert told["detail"].startswith("The disk of the server is full.")
    assert ada.call("GET", "/api/project")[0] == 200
