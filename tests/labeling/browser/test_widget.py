"""The question view in a notebook: its messages without a browser, and its frame in one, over a model of the test's."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_pages import expect

pytest.importorskip("anywidget", reason="the widget needs the extra `notebook`")

from jostle.labeling import Session
from jostle.labeling.server.widget import LabelWidget, bundle, notebook_document

CLASSES = ("red", "green", "blue")

# What a notebook gives to a widget: a model whose messages reach the kernel, and an element of a cell.
NOTEBOOK = """<!doctype html><title>Notebook</title><div id="cell"></div><script type="module">
import widget from "/widget.js";
const heard = [];
const model = {
  get: () => "36rem",
  on: (_, callback) => heard.push(callback),
  off: () => {},
  send: async (message) => {
    const { content, buffers } = await kernel(message);
    const views = buffers.map((each) => new DataView(Uint8Array.from(atob(each), (c) => c.charCodeAt(0)).buffer));
    heard.forEach((callback) => callback(content, views));
  },
};
widget.render({ model, el: document.getElementById("cell") });
addEventListener("keydown", (event) => (document.title += event.key));
</script>"""


class Kernel:
    """A widget whose messages are taken down in place of being sent."""

    def __init__(self, session: Session) -> None:
        self.widget = LabelWidget(session, "Ada")
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self.widget.send = lambda content, buffers=None: self.sent.append((content, buffers))  # type: ignore[method-assign]

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """As the frame gets it."""
        self.widget._handle_custom_msg(message, [])
        content, buffers = self.sent.pop()
        return {"content": content, "buffers": [base64.b64encode(each).decode() for each in buffers]}

    def call(self, address: str, body: Any = None) -> tuple[int, Any]:
        """Status and reply of one call."""
        sent = None if body is None else json.dumps(body)
        content = self.reply({"id": "1", "address": address, "body": sent})["content"]
        return content["status"], json.loads(content["body"])


@pytest.fixture
def session(photos: Path, tmp_path: Path) -> Session:
    return Session.open(photos, project=tmp_path / "p", answers=CLASSES, encoder="pixels")


def test_messages_ask_tell_skip_and_undo(session: Session) -> None:
    kernel = Kernel(session)
    asked = kernel.reply({"id": "7", "address": "/api/questions?person=Ada&n=2", "body": None})
    questions = json.loads(asked["content"]["body"])["questions"]
    assert asked["content"]["id"] == "7"
    pictures = [base64.b64decode(each) for each in asked["buffers"]]
    assert pictures == [session.content(each["key"]).data for each in questions]
    first, second = (each["key"] for each in questions)
    answer = {"id": "12345678", "key": first, "answer": "green", "seconds": 1.5}
    assert kernel.call("/api/answers", {"person": "Ada", "answers": [answer]})[1]["kept"] == ["12345678"]
    assert session.labels() == {first: "green"}
    assert kernel.call("/api/undo", {"person": "Ada"})[1]["answer"] == "green"
    assert session.labels() == {}
    assert kernel.call("/api/skip", {"person": "Ada", "key": second})[0] == 200
    assert kernel.call("/api/skip", {"person": "Ada", "key": "nothing"})[0] == 404  # an error is a reply


def test_the_page_is_one_script_without_imports() -> None:
    for name in ("notebook.js", "page.js"):
        script = bundle(name)
        assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]
    assert "&lt;b&gt;" in notebook_document("<b>")


def test_keys_answer_in_the_frame_and_stay_there(session: Session, chromium: Any) -> None:
    kernel, errors = Kernel(session), list[str]()
    served: dict[str, Callable[[], tuple[str, str]]] = {
        "/": lambda: (NOTEBOOK, "text/html"),
        "/widget.js": lambda: (kernel.widget._esm, "text/javascript"),
    }

    def serve(route: Any) -> None:
        body, kind = served["/" + route.request.url.rpartition("/")[2]]()
        route.fulfill(body=body, content_type=kind)

    context = chromium.new_context(viewport={"width": 1000, "height": 700})
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.expose_function("kernel", kernel.reply)
    page.route("http://notebook.test/**", serve)
    page.goto("http://notebook.test/")
    frame = page.frame_locator("iframe")

    def shown() -> str:
        return str(frame.locator(".stage").get_attribute("data-name"))

    frame.locator(".stage[data-state=shown]").click()
    truth = {}
    for key, name in (("1", "red"), ("g", "green"), ("3", "blue")):
        truth[shown()] = name
        page.keyboard.press(key)
        expect(page, lambda: len(session.labels()), len(truth))
        expect(page, lambda: shown() not in truth, True)
    assert {session.question(key).name: said for key, said in session.labels().items()} == truth
    page.keyboard.press("Backspace")
    expect(page, lambda: len(session.labels()), 2)
    expect(page, lambda: shown() in truth, True)
    page.keyboard.press("!")
    expect(page, lambda: frame.locator("[data-action=flag]").get_attribute("aria-pressed"), "true")
    assert page.title() == "Notebook"  # no key reaches the notebook, where D D deletes a cell
    context.close()
    assert not errors
