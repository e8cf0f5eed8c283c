"""A real server in a process of its own, that can be killed and started again, and people who speak to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

TOKEN = "a-token-for-tests"  # nosec B105  # of servers that tests start and end
STARTING = 300  # seconds that a server may take on a busy machine


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """`jostle label` with some options; `kill` is SIGKILL, and `start` again goes on where it was."""

    words: list[str]
    project: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    address: str = ""

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it replies."""
        fixed = ["--project", str(self.project), "--port", str(self.port), "--token", TOKEN, "--no-browser"]
        command = [sys.executable, "-m", "jostle", "label", *self.words, *fixed]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        self.address = self.process.stderr.readline().strip()
        assert self.address.startswith("http://"), self.address + self.process.stderr.read()
        until = time.monotonic() + STARTING
        while time.monotonic() < until:
            try:
                if Person("probe", self.port).call("GET", "/api/project")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server did not answer")

    def kill(self) -> None:
        """The server and what it started, at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process is not None and self.process.stderr is not None:
            self.process.stderr.close()

    @property
    def origin(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"


class Person:
    """Somebody who answers like the page does: the same id until the server says that it is on disk."""

    def __init__(self, name: str, port: int, token: str = TOKEN, patience: float = 60) -> None:
        self.name, self.port, self.token, self.patience = name, port, token, patience
        self.line: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request on a line that is kept open, on a new one if it was closed; OSError where the server is away."""
        kept = self.line is not None
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **headers}
        try:
            if self.line is None:
                self.line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
            self.line.request(method, path, None if body is None else json.dumps(body), sent)
            reply = self.line.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as away:
            self.hang_up()
            if kept:
                return self.call(method, path, body, **headers)
            raise ConnectionError(str(away)) from away
        return reply.status, json.loads(text) if text[:1] in (b"{", b"[") else text

    def hang_up(self) -> None:
        """Close the line."""
        if self.line is not None:
            self.line.close()
        self.line = None

    def questions(self, n: int = 5, have: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What this person is to have open, without those that they have."""
        query = urlencode({"person": self.name, "n": n, "have": have}, doseq=True)
        status, found = self.call("GET", f"/api/questions?{query}")
        assert status == 200, found
        return list(found["questions"])

    def answer(self, key: str, answer: Any, seconds: float = 1.0, id: str | None = None) -> dict[str, Any]:
        """One answer; what the server says."""
        given = {"id": id or uuid.uuid4().hex, "key": key, "answer": answer, "seconds": seconds}
        status, found = self.call("POST", "/api/answers", {"person": self.name, "answers": [given]})
        assert status == 200, found
        return dict(found)
