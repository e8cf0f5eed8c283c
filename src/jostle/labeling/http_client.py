"""JSON over HTTP, with the standard library: calls to Label Studio and to servers of models."""

from __future__ import annotations

import json
import time
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from jostle.utils.sockets import is_loopback

MAX_REPLY_BYTES = 2**20  # of a server that is not trusted
CHUNK_BYTES = 2**16


def is_address(spec: str | None) -> bool:
    """Return whether a word is an address."""
    return urlsplit(spec or "").scheme in ("http", "https")


def is_remote(spec: str | None) -> bool:
    """Return whether a word is an address of another machine."""
    return is_address(spec) and not is_loopback(urlsplit(spec or "").hostname or "")


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: they would carry contents and the key to an address that nobody named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def strict_opener(proxies: bool) -> OpenerDirector:
    """Return an opener that follows no redirects; one without proxies reaches this machine alone."""
    return build_opener(_NoRedirect, *([] if proxies else [ProxyHandler({})]))


def make_request(method: str, url: str, body: Any, headers: dict[str, str]) -> Request:
    """Return a request with a body in JSON; None: without a body."""
    data = None if body is None else json.dumps(body).encode()
    return Request(url, data=data, headers={"content-type": "application/json", **headers}, method=method)


def read_reply(reply: HTTPResponse, until: float) -> Any:
    """Read a reply in JSON; raise TimeoutError after a time, and ValueError if it is too long or no JSON."""
    data = b""
    while chunk := reply.read1(CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_REPLY_BYTES:
            raise ValueError(f"the reply has more than {MAX_REPLY_BYTES:,} bytes")
        if time.monotonic() > until:
            raise TimeoutError("the reply took too long")
    return json.loads(data)
