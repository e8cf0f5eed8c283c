"""Sockets that servers listen on, their addresses, and JSON over HTTP with the standard library."""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

WAITING = 128  # connections that wait until the server is up


def listener(host: str, port: int) -> socket.socket:
    """A listening socket: who comes before the server is up waits. Port 0 takes any.

    Connections send what is written at once. Without that the body of a reply, which is written after its head, waits
    until the other side has confirmed the head, and that takes its time: 40 ms on Linux.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        made.bind((host, port))
        made.listen(WAITING)
    except OSError:
        made.close()
        raise
    return made


def parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address of a name that is one, else None."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    address = parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


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
