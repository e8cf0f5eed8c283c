"""Who may speak to the server: a token, a Host that is ours, no other site's posts, no body without a bound."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import HTTPException

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LARGEST_BODY = 256 * 1024  # bytes; a full batch of kept answers has a tenth of that
LONGEST_NUMBER = 20  # digits; Python refuses to read very long ones
WILDCARDS = frozenset({"0.0.0.0", "::"})
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

STRANGER = {"www-authenticate": "Bearer", "content-type": "text/html; charset=utf-8"}
# A browser that came by a link from elsewhere holds a Strict cookie back; a click on a page of ours sends it.
CLOSED = (
    "<!doctype html><meta charset=utf-8><title>jostle</title><p>Open the address that the server printed: it has "
    "the token in it.<p>If that is where you come from, <a href=/>go on</a>."
)


def token_of(project: Path) -> str:
    """The project's own token, made once: a page that is open goes on when the server is started again."""
    path = project / "token"
    path.touch(mode=0o600)
    if not path.read_text(encoding="ascii").strip():
        path.write_text(secrets.token_urlsafe(24), encoding="ascii")
    return path.read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class Door:
    """What the server is bound to, and who gets in."""

    token: str
    port: int
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.~-]+", self.token, flags=re.ASCII):
            raise ValueError("a token has letters, digits and . _ ~ - only, and at least one of them")

    @property
    def cookie(self) -> str:
        """The name of the cookie; ports of one host share their cookies, so the port is in it."""
        return f"jostle-{self.port}"

    @property
    def address(self) -> str:
        """Where a browser of this machine finds the page; the token lets it in."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{shown}:{self.port}/?{urlencode({'token': self.token})}"

    def knows(self, token: str) -> bool:
        """Whether a token is ours, in a time that does not tell how much of it is right."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def serves(self, host: str) -> bool:
        """Whether a Host header names this server; a name of another site may have been rebound to our address."""
        name = host_name(host)
        if name is None:
            return False
        address = address_of(name)
        if name == "localhost" or (address is not None and address.is_loopback):
            return True
        if self.host in WILDCARDS:
            return address is not None or name == socket.gethostname().lower()
        return name == self.host.lower()


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is reached from this machine only."""
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None where there is no telling."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a name is, if it is one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def cross_site(method: str, headers: dict[str, str]) -> bool:
    """Whether another site's page may have sent this; what no browser sent has neither header."""
    if method in SAFE:
        return False
    if site := headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


class Guard:
    """An ASGI application that lets only what may pass through to another, and sets every answer's headers."""

    def __init__(self, app: App, door: Door, largest: int = LARGEST_BODY) -> None:
        self.app, self.door, self.largest = app, door, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Nothing but requests and the server's own beginning and end get further."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        return await self.judged(scope, receive, with_security_headers(send))

    async def judged(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or say why not."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self.refusal(scope, headers)
        if refusal is not None:
            await answer(send, *refusal, STRANGER if refusal[0] == 401 else {})
        elif scope["method"] == "GET" and in_query(scope) and is_page(scope):
            await self.enter(scope, send)
        else:
            await self.bounded(scope, receive, send)

    def refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why a request may not pass: a status and words; None if it may."""
        if not self.door.serves(headers.get("host", "")):
            return 421, "This server does not answer to that Host."
        if cross_site(scope["method"], headers):
            return 403, "Another site sent this."
        if not any(self.door.knows(each) for each in tokens(scope, headers, self.door.cookie)):
            return 401, CLOSED
        if length(headers) > self.largest:
            return 413, f"At most {self.largest} bytes."
        return None

    async def enter(self, scope: Scope, send: Send) -> None:
        """Keep the token in a cookie that scripts cannot read, and drop it from the address."""
        rest = [pair for pair in query(scope) if pair[0] != "token"]
        place = quote(scope["path"].lstrip("/\\")) + (f"?{urlencode(rest)}" if rest else "")
        cookie = f"{self.door.cookie}={self.door.token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        await answer(send, 303, "", {"location": f"/{place}", "set-cookie": cookie})

    async def bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one without a length is cut off at the bound."""
        read = 0

        async def some() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.largest:
                raise HTTPException(413, f"At most {self.largest} bytes.")
            return message

        await self.app(scope, some, send)


def tokens(scope: Scope, headers: dict[str, str], cookie: str) -> list[str]:
    """Every token that a request shows: in its address, its cookie or its Authorization."""
    return [*in_query(scope), *in_cookie(headers.get("cookie", ""), cookie), *in_authorization(headers)]


def query(scope: Scope) -> list[tuple[str, str]]:
    """The pairs of a request's query."""
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def in_query(scope: Scope) -> list[str]:
    """Tokens in the address."""
    return [value for name, value in query(scope) if name == "token"]


def in_cookie(text: str, name: str) -> list[str]:
    """The token in our cookie; other servers' cookies of this host come along and need not be well formed."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return [value for key, _, value in pairs if key == name]


def in_authorization(headers: dict[str, str]) -> list[str]:
    """The token of scripts (`Bearer T`), or the password of other tools (`Basic`)."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            return [b64decode(value, validate=True).decode().partition(":")[2]]
        except (NotBase64, UnicodeDecodeError):
            return []
    return [value.strip()] if scheme.lower() in ("bearer", "token") else []


def is_page(scope: Scope) -> bool:
    """Whether a request is for what a browser's address bar shows."""
    return not scope["path"].startswith("/api/")


def length(headers: dict[str, str]) -> int:
    """The length that a request announces; what is no number counts as too long."""
    said = headers.get("content-length", "0")
    return int(said) if said.isdecimal() and len(said) < LONGEST_NUMBER else 2**63


def with_security_headers(send: Send) -> Send:
    """A `send` that adds the headers of `HEADERS` where an answer has none of that name."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", [])}
            added = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return with_headers


async def answer(send: Send, status: int, words: str, headers: Mapping[str, str]) -> None:
    """A short answer in plain words."""
    body = words.encode()
    shown = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **headers}
    start = [(name.encode(), value.encode("latin-1")) for name, value in shown.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
