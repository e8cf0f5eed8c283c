"""Access to the server: a token, our own Host, no posts of other sites, bodies of limited size, roles of people.

The server's own token belongs to its owner, who may do everything under any name. A token of `add_person` belongs to
one person, whose role opens some routes. The database has its hash alone.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Depends, HTTPException
from fastapi.concurrency import run_in_threadpool
from fastapi.datastructures import QueryParams
from fastapi.responses import PlainTextResponse
from pydantic import AfterValidator, Field
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from jostle.labeling.answers import clean_person_name
from jostle.labeling.store import Store
from jostle.labeling.store.schema import people
from jostle.utils.sockets import is_loopback, parse_address

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES = 256 * 1024  # bytes; a full batch of kept answers has a tenth of that
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
        if is_loopback(name):
            return True
        if self.host in WILDCARDS:
            return parse_address(name) is not None or name == socket.gethostname().lower()
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
        self._wrong[address] = {token: at for token, at in self._wrong[address].items() if at > since}
        return len(self._wrong[address]) > MAX_GUESSES


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
        query, client = QueryParams(scope["query_string"]), (scope.get("client") or ("",))[0]
        shown = [*query.getlist("token"), *header_tokens(headers, self.auth.cookie)][:MAX_TOKENS]
        refusal = self.find_refusal(scope, headers, client)
        token = None if refusal else await self.find_valid(shown)
        if refusal is None and token is None:
            self.guesses.add(client, shown)
            refusal = 401, TOKEN_PAGE
        if refusal is None and content_length(headers) > self.largest:
            refusal = 413, f"At most {self.largest} bytes."
        is_page = not scope["path"].startswith(f"{scope.get('root_path', '')}/api/")
        reply: App = self.forward
        if refusal is not None:
            status, words = refusal
            reply = PlainTextResponse(words, status, UNAUTHORIZED_HEADERS if status == 401 else None)
        elif token is not None and scope["method"] == "GET" and "token" in query and is_page:
            reply = self.enter(scope, query, token)
        await reply(scope, receive, send)

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

    def enter(self, scope: Scope, query: QueryParams, token: str) -> PlainTextResponse:
        """Lead to the address without the token, with a cookie that scripts cannot read."""
        rest = [pair for pair in query.multi_items() if pair[0] != "token"]
        place = quote(scope["path"].lstrip("/\\")) + (f"?{urlencode(rest)}" if rest else "")
        path = "/" if self.auth.is_valid_token(token) else f"{scope.get('root_path', '')}/"
        cookie = f"{self.auth.cookie}={token}; Path={path}; HttpOnly; SameSite=Strict; Max-Age=31536000"
        return PlainTextResponse("", 303, {"location": f"/{place}", "set-cookie": cookie})

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


def header_tokens(headers: dict[str, str], cookie: str) -> list[str]:
    """Return the tokens of a request: of scripts (`Bearer T`), of other tools (`Basic`, a password), and of cookies."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    found = [value.strip()] if scheme.lower() in ("bearer", "token") else []
    if scheme.lower() == "basic":
        with suppress(NotBase64, UnicodeDecodeError):
            found = [b64decode(value, validate=True).decode().partition(":")[2]]
    # other servers' cookies of this host need not be well formed, and a browser may hold two of ours
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return found + [value for name, _, value in pairs if name == cookie]


def content_length(headers: dict[str, str]) -> int:
    """Return the announced length; a malformed one counts as too long."""
    said = headers.get("content-length", "0")
    return (
        int(said) if said.isdecimal() and len(said) < 20 else 2**63
    )  # Python refuses to read very long ones


def add_security_headers(send: Send) -> Send:
    """Return a `send` that adds `SECURITY_HEADERS` where a response has none of that name."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message.get("headers", [])}
            added = [(n.encode(), v.encode()) for n, v in SECURITY_HEADERS.items() if n.encode() not in own]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return with_headers


Role = Literal["label", "review", "manage"]
ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may


@dataclass(frozen=True)
class Person:
    """Person with a token."""

    name: str
    role: Role
    at: float  # when the token was made


signed_in: ContextVar[Person | None] = ContextVar("signed_in", default=None)  # None: the owner of the server


def add_person(store: Store, name: str, role: Role) -> str:
    """Add a person to a project; return the token, which cannot be read again.

    Raises:
        ValueError: The person has a token, or the role is unknown.
    """
    name = clean_person_name(name)
    if role not in ROLES:
        raise ValueError(f"the role must be one of {', '.join(ROLES)}; got {role!r}")
    token = secrets.token_urlsafe(24)
    row = {"name": name, "role": role, "digest": hash_token(token), "at": store.clock()}
    try:
        with store.write_transaction() as tx:
            tx.execute(insert(people).values(row))
    except IntegrityError:
        raise ValueError(f"{name!r} has a token: remove it first to make a new one") from None
    return token


def list_people(store: Store) -> list[Person]:
    """Return the people with tokens, by name."""
    return [Person(row.name, row.role, row.at) for row in store.rows(select(people).order_by(people.c.name))]


def remove_person(store: Store, name: str) -> None:
    """Withdraw a person's token, at once; their answers stay.

    Raises:
        ValueError: Nobody of this name has a token.
    """
    name = clean_person_name(name)
    with store.write_transaction() as tx:
        removed = tx.execute(delete(people).where(people.c.name == name)).rowcount
    if not removed:
        there = ", ".join(each.name for each in list_people(store)) or "nobody"
        raise ValueError(f"{name!r} has no token; {there} has one")


def find_person(store: Store, token: str) -> Person | None:
    """Return the person of a token, None if it is nobody's; the time does not tell how near a guess came."""
    digest = hash_token(token)
    found = [row for row in store.rows(select(people)) if hmac.compare_digest(row.digest, digest)]
    return Person(found[0].name, found[0].role, found[0].at) if found else None


def hash_token(token: str) -> str:
    """Return the hash of a token; 192 random bits need no slow one."""
    return sha256(token.encode()).hexdigest()


def current_role() -> Role:
    """Return the role of whoever sent the request."""
    return person.role if (person := signed_in.get()) else "manage"


class Routes:
    """Routes of an application, by the first role that may use them."""

    def __init__(self) -> None:
        self.label, self.review, self.manage = map(make_router, ROLES)


def make_router(role: Role) -> APIRouter:
    """Return a router that refuses requests of people with a lesser role."""

    async def check_role() -> None:
        if ROLES.index(current_role()) < ROLES.index(role):
            raise HTTPException(403, f"Your token is for {current_role()!r}; this needs {role!r}.")

    return APIRouter(dependencies=[Depends(check_role)])


def check_sender(name: str) -> str:
    """Refuse the name of somebody else than the token's person."""
    person = signed_in.get()
    if person is not None and " ".join(name.split()) != person.name:
        raise HTTPException(403, f"Your token is for {person.name}, not for {name}.")
    return name


Sender = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_sender)]
"""Name of the person who sends a request."""
