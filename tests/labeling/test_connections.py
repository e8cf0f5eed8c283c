"""Slow clients are sent away, and others are served meanwhile."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from jostle.labeling.server import serving
from jostle.labeling.server.serving import LimitedProtocol
from jostle.utils.sockets import listener

PATIENCE = 120  # seconds that a test waits for an end that comes within one


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body, then reply."""
    if scope["type"] == "lifespan":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that waits half a second for a request, and has room for three connections of one address."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(serving, "MAX_PER_ADDRESS", 3)
    with listener("127.0.0.1", 0) as listening:
        config = uvicorn.Config(app, http=LimitedProtocol, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        server.should_exit = True
        thread.join()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    made.sendall(sent)
    return made


def read_all(line: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    try:
        while part := line.recv(4096):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: ",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost",
    ],
)
def test_a_request_that_does_not_end_is_given_up(port: int, begun: bytes) -> None:
    with connect(port, begun) as line:
        replies = read_all(line).count(b"200 OK")
    assert replies == begun.count(b"\r\n\r\nGET")


def test_a_whole_request_is_served_again_and_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", PATIENCE)  # a busy machine is slow, too
    with connect(port) as line:
        for _ in range(3):
            line.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            reply = b""
            while not reply.endswith(b"ok"):
                reply += line.recv(4096)
            assert b"200 OK" in reply


def test_one_address_has_a_limited_number_of_connections(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", PATIENCE)
    held = [connect(port) for _ in range(3)]
    with connect(port) as beyond:
        assert read_all(beyond) == b""
    for line in held:
        line.close()
