"""A session behind its own server, for people who are simulated: they speak to it as a page does."""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from jostle.labelling.answers import Answer
from jostle.labelling.contents import Question
from jostle.labelling.security import Door
from jostle.labelling.session import Session
from jostle.plumbing.sockets import listener

STARTING = 30.0  # seconds that a server may take


class ServedDesk:
    """Asks and tells over loopback; one line is kept open."""

    def __init__(self, session: Session, door: Door) -> None:
        self.session, self.door = session, door
        self.line = http.client.HTTPConnection("127.0.0.1", door.port, timeout=STARTING)

    def ask(self, n: int, person: str) -> Sequence[Question]:
        """The questions a person is to have open."""
        found = self._call("GET", f"/api/questions?{urlencode({'person': person, 'n': n})}")
        kind = self.session.source.kind
        return [Question(each["key"], kind, each["name"]) for each in found["questions"]]

    def tell(self, key: str, answer: Answer, person: str, seconds: float | None, id: str | None) -> None:
        """An answer, kept when this returns."""
        made = {"id": id or secrets.token_hex(16), "key": key, "answer": answer, "seconds": seconds}
        found = self._call("POST", "/api/answers", {"person": person, "answers": [made]})
        if found["refused"]:
            raise ValueError(f"the server refused an answer: {found['refused'][0]['words']}")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            reply, text = self._spoken(method, path, body)
        except (
            ConnectionError,
            http.client.HTTPException,
        ):  # a line that was idle for long is closed by the server
            self.line.close()
            reply, text = self._spoken(method, path, body)
        if reply.status != http.client.OK:
            raise ConnectionError(f"{method} {path}: {reply.status} {text.decode(errors='replace')[:200]}")
        return json.loads(text)

    def _spoken(self, method: str, path: str, body: Any) -> tuple[http.client.HTTPResponse, bytes]:
        sent = {"authorization": f"Bearer {self.door.token}", "content-type": "application/json"}
        self.line.request(method, path, None if body is None else json.dumps(body), sent)
        reply = self.line.getresponse()
        return reply, reply.read()


@contextmanager
def served(session: Session) -> Iterator[ServedDesk]:
    """The session's server on a free port, until the block ends."""
    import uvicorn

    from jostle.labelling.server import guarded_app

    with listener("127.0.0.1", 0) as listening:
        door = Door(secrets.token_urlsafe(16), int(listening.getsockname()[1]))
        config = uvicorn.Config(
            guarded_app(session, door, "simulation"), log_level="warning", access_log=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        end = time.monotonic() + STARTING
        while not server.started and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        desk = ServedDesk(session, door)
        try:
            yield desk
        finally:
            desk.line.close()
            server.should_exit = True
            thread.join()
