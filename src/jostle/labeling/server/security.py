"""Access to the server: a token, our own Host, no posts of other sites, bodies of limited size, no slow clients.

uvicorn waits for ever for a request that does not end. Here a request must be complete, and a reply read, in time.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import socket
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import HTTPException
from fastapi.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol

from jostle.labeling.server.people import find_person, signed_in
from jostle.labeling.store import Store
from jostle.utils.sockets import parse_address

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES = 256 * 1024  # bytes; a full batch of kept answers has a tenth of that
MAX_LENGTH_DIGITS = 20  # digits; Python refuses to read very long ones
MIN_TOKEN_LENGTH = 8
MAX_GUESSES, GUESS_SECONDS = 20, 60.0  # different wrong tokens of one address within so many seconds
MAX_TOKENS = 8  # of one request that are looked at: none makes hundreds of guesses
MAX_ADDRESSES = 10_000  # whose guesses are remembered
WILDCARDS = frozenset({"0.0.0.0", "::"})  # nosec  # B104: recognized here, never the default
SECURITY_HEADERS = {
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
# What is in a picture is never run, whatever it says it is; by its key it never changes.
PICTURE_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, max-age=31536000, immutable",
}

# No file of the server is to be had without a token, so the page carries its own style, allowed by its hash. A browser
# that came by a link from elsewhere holds a Strict cookie back; a click on a page of ours sends it.
TOKEN_PAGE = (files("jostle.labeling.server") / "templates" / "token.html").read_text(encoding="utf-8")
TOKEN_STYLE = TOKEN_PAGE.partition("<style>")[2].partition("</style>")[0]
STYLE_HASH = b64encode(sha256(TOKEN_STYLE.encode()).digest()).decode()
UNAUTHORIZED_HEADERS = {
    "www-authenticate": "Bearer",
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
}


def read_token(project: Path) -> str:
    """Read the project's own token, made once: an open page keeps working when the server restarts."""
    path = project / "token"
    path.touch(mode=0o600)
    if not path.read_text(encoding="ascii").strip():
        path.write_text(secrets.token_urlsafe(24), encoding="ascii")
    return path.read_text(encoding="ascii").strip()


@dataclass(frozen=True)
class ServerAuth:
    """Address and token of a server."""

    token: str
    port: int
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.~-]+", self.token, flags=re.ASCII):
            raise ValueError("a token has letters, digits and . _ ~ - only, and at least one of them")
        if len(self.token) < MIN_TOKEN_LENGTH:
            raise ValueError(
                f"a token of {len(self.token)} characters is easily guessed: use at least {MIN_TOKEN_LENGTH}"
            )

    @property
    def cookie(self) -> str:
        """Name of the cookie; ports of one host share cookies, so the port is in it."""
        return f"jostle-{self.port}"

    @property
    def address(self) -> str:
        """Address of the page for a browser on this machine, with the token."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # nosec  # B104: the same
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{shown}:{self.port}/?{urlencode({'token': self.token})}"

    def is_valid_token(self, token: str) -> bool:
        """Compare a token in constant time."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header names this server; another site may have been rebound to our address."""
        name = host_name(host)
        if name is None:
            return False
        address = parse_address(name)
        if name == "localhost" or (address is not None and address.is_loopback):
            return True
        if self.host in WILDCARDS:
            return address is not None or name == socket.gethostname().lower()
        return name == self.host.lower()


def host_name(host: str) -> str | None:
    """Return the name in a Host header without port and brackets; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def is_cross_site(method: str, headers: dict[str, str]) -> bool:
    """Return whether another site's page may have sent a request; programs other than browsers send neither header."""
    if method in SAFE_METHODS:
        return False
    if site := headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


class GuessLimit:
    """Different wrong tokens by address; a page that shows an old token again and again is no guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._wrong: OrderedDict[str, dict[str, float]] = OrderedDict()  # address -> token -> time

    def add(self, address: str, tokens: Iterable[str]) -> None:
        """Note wrong tokens of an address."""
        found = self._wrong.setdefault(address, {})
        found |= dict.fromkeys(list(tokens)[: MAX_GUESSES + 1], self.clock())
        self._wrong.move_to_end(address)
        while len(self._wrong) > MAX_ADDRESSES:
            self._wrong.popitem(last=False)

    def is_exceeded(self, address: str) -> bool:
        """Return whether an address showed more than `MAX_GUESSES` wrong tokens within `GUESS_SECONDS`."""
        if address not in self._wrong:
            return False
        since = self.clock() - GUESS_SECONDS
        recent = {token: at for token, at in self._wrong[address].items() if at > since}
        self._wrong[address] = recent
        return len(recent) > MAX_GUESSES


class SecurityMiddleware:
    """ASGI middleware that passes on permitted requests only, and sets the headers of every response."""

    def __init__(
        self,
        app: App,
        auth: ServerAuth,
        largest: int = MAX_BODY_BYTES,
        store: Store | None = None,
        guesses: GuessLimit | None = None,
    ) -> None:
        self.app, self.auth, self.largest = app, auth, largest
        self.store = store  # of a project, whose people have tokens of their own
        self.guesses = guesses or GuessLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on lifespan events, close web sockets, and check requests."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        return await self.handle(scope, receive, add_security_headers(send))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with the reason why not."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        shown, client = find_tokens(scope, headers, self.auth.cookie), (scope.get("client") or ("",))[0]
        refusal = self.find_refusal(scope, headers, client)
        token = None if refusal else await self.find_valid(shown)
        if refusal is None and token is None:
            self.guesses.add(client, shown)
            refusal = 401, TOKEN_PAGE
        if refusal is None and content_length(headers) > self.largest:
            refusal = 413, f"At most {self.largest} bytes."
        if refusal is not None:
            await respond(send, *refusal, UNAUTHORIZED_HEADERS if refusal[0] == 401 else {})
        elif token is not None and scope["method"] == "GET" and query_tokens(scope) and is_page(scope):
            await self.set_cookie(scope, send, token)
        else:
            await self.forward(scope, receive, send)

    def find_refusal(self, scope: Scope, headers: dict[str, str], client: str) -> tuple[int, str] | None:
        """Return the status and words of a refusal before tokens are read; None if there is none."""
        if not self.auth.accepts_host(headers.get("host", "")):
            return 421, "This server does not answer to that Host."
        if is_cross_site(scope["method"], headers):
            return 403, "Another site sent this."
        if self.guesses.is_exceeded(client):
            return 429, "Too many wrong tokens came from this address: try again in a minute."
        return None

    async def find_valid(self, shown: Iterable[str]) -> str | None:
        """Return the first valid token, and note whose it is; a withdrawn one is valid no longer."""
        for token in shown:
            if self.auth.is_valid_token(token):
                signed_in.set(None)
                return token
            if self.store is None:
                continue
            if (person := await run_in_threadpool(find_person, self.store, token)) is not None:
                signed_in.set(person)
                return token
        return None

    async def set_cookie(self, scope: Scope, send: Send, token: str) -> None:
        """Store the token in a cookie that scripts cannot read, and drop it from the address."""
        rest = [pair for pair in query_pairs(scope) if pair[0] != "token"]
        place = quote(scope["path"].lstrip("/\\")) + (f"?{urlencode(rest)}" if rest else "")
        path = "/" if self.auth.is_valid_token(token) else f"{scope.get('root_path', '')}/"
        cookie = f"{self.auth.cookie}={token}; Path={path}; HttpOnly; SameSite=Strict; Max-Age=31536000"
        await respond(send, 303, "", {"location": f"/{place}", "set-cookie": cookie})

    async def forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one without a length is cut off at the limit."""
        read = 0

        async def some() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.largest:
                raise HTTPException(413, f"At most {self.largest} bytes.")
            return message

        await self.app(scope, some, send)


def find_tokens(scope: Scope, headers: dict[str, str], cookie: str) -> list[str]:
    """Return the tokens of a request: in its address, its Authorization header or its cookies."""
    found = [
        *query_tokens(scope),
        *authorization_tokens(headers),
        *cookie_tokens(headers.get("cookie", ""), cookie),
    ]
    return found[:MAX_TOKENS]


def query_pairs(scope: Scope) -> list[tuple[str, str]]:
    """Return the pairs of a request's query."""
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def query_tokens(scope: Scope) -> list[str]:
    """Return the tokens in the address."""
    return [value for name, value in query_pairs(scope) if name == "token"]


def cookie_tokens(text: str, name: str) -> list[str]:
    """Return the token in our cookie; other servers' cookies of this host need not be well formed."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return [value for key, _, value in pairs if key == name]


def authorization_tokens(headers: dict[str, str]) -> list[str]:
    """Return the token of scripts (`Bearer T`), or the password of other tools (`Basic`)."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            return [b64decode(value, validate=True).decode().partition(":")[2]]
        except (NotBase64, UnicodeDecodeError):
            return []
    return [value.strip()] if scheme.lower() in ("bearer", "token") else []


def is_page(scope: Scope) -> bool:
    """Return whether a request is for a page in a browser's address bar."""
    return not scope["path"].startswith(f"{scope.get('root_path', '')}/api/")


def content_length(headers: dict[str, str]) -> int:
    """Return the announced length; a malformed one counts as too long."""
    said = headers.get("content-length", "0")
    return int(said) if said.isdecimal() and len(said) < MAX_LENGTH_DIGITS else 2**63


def add_security_headers(send: Send) -> Send:
    """Return a `send` that adds `SECURITY_HEADERS` where a response has none of that name."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", [])}
            added = [(n.encode(), v.encode()) for n, v in SECURITY_HEADERS.items() if n.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return with_headers


async def respond(send: Send, status: int, words: str, headers: Mapping[str, str]) -> None:
    """Send a short response in plain words."""
    body = words.encode()
    shown = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **headers}
    start = [(name.encode(), value.encode("latin-1")) for name, value in shown.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


REQUEST_SECONDS = 30.0  # from the first byte of a request, or the beginning of a connection, to its last
REPLY_SECONDS = 600.0  # to compute a reply and to send it
MAX_CONNECTIONS = 600
MAX_PER_ADDRESS = 300  # a team behind one router has one address


class LimitedProtocol(H11Protocol):
    """HTTP connection that is closed when its client takes too long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting = False  # for a request, not for a reply

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse a connection beyond the limits, and wait for a request otherwise."""
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        others = [getattr(each, "client", None) or (None,) for each in self.connections]
        same = sum(other[0] == address for other in others)
        if len(self.connections) > MAX_CONNECTIONS or same > MAX_PER_ADDRESS:
            transport.abort()
            return
        self._expect(request=True)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; begin to wait for the rest of a request, or for its reply."""
        super().data_received(data)
        cycle = self.cycle
        waiting = cycle is None or cycle.response_complete or cycle.more_body
        if waiting != self._waiting or self._deadline is None:
            self._expect(request=waiting)

    def on_response_complete(self) -> None:
        """Stop waiting; uvicorn closes a connection that stays idle."""
        self._cancel()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel()
        super().connection_lost(exc)

    def _expect(self, request: bool) -> None:
        self._cancel()
        self._waiting = request
        seconds = REQUEST_SECONDS if request else REPLY_SECONDS
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.transport is not None:
            self.transport.abort()
