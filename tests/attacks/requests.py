"""Requests to the labeling server, of strangers and of people with strange wishes: nobody gets in, nothing breaks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from labeling_data import tickets

from attacks.driver import BrokenPromiseError, check
from jostle.labeling import Answers, Session
from jostle.labeling.server import create_server_app
from jostle.labeling.server.security import TOKEN_PAGE, SecurityMiddleware, ServerAuth

TOKEN, PORT = "a-token-for-attacks", 8321
EXAMPLES, REQUESTS = 12, 40
HOSTS = (
    "127.0.0.1:8321", "localhost", "evil.example", "127.0.0.1.evil.example", "", "[::1]:8321", "0.0.0.0", "a@b",
)  # fmt: skip
LOOKS = (
    "/", "/api/project", "/api/questions", "/api/grid", "/api/doubts", "/api/disagreements", "/api/answers",
    "/api/progress", "/static/page.js", "/openapi.json", "/docs",
)  # fmt: skip
POSTS = (
    "/api/answers", "/api/skip", "/api/undo", "/api/release", "/api/correct", "/api/classes/rename",
    "/api/classes/merge", "/api/classes/add", "/api/train",
)  # fmt: skip
FIELDS = ("person", "key", "answer", "answers", "id", "seconds", "ask", "have", "name", "to", "into", "token")


@dataclass
class Asked:
    """One request, and whether its sender may come in."""

    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    allowed: bool

    def __str__(self) -> str:
        said = [(name, value[:60]) for name, value in self.headers]
        return f"{self.method} {self.path[:200]!r}?{self.query[:400]} {said} {self.body[:200]!r}"


def attack(chance: Random, folder: Path) -> str:
    """A new project, and many requests of all kinds to it."""
    source, answers = tickets(folder / "tickets.csv", EXAMPLES), Answers("one", ("good", "bad"))
    session = Session.open(source, project=folder / "project", text="none", answers=answers)
    try:
        door = create_server_app(session, ServerAuth(TOKEN, PORT), "a project")
        keys = [each.key for each in session.ask(EXAMPLES, "somebody")]
        asyncio.run(tried(door, session, [request(chance, keys) for _ in range(REQUESTS)], str(folder)))
    finally:
        session.close()
    return "strangers stayed outside"


async def tried(door: SecurityMiddleware, session: Session, asked: list[Asked], home: str) -> None:
    for each in asked:
        before = known(session)
        try:
            judge(each, *await answered(door, each), home)
        except BrokenPromiseError:
            raise
        except Exception as error:
            raise BrokenPromiseError(f"{type(error).__name__}: {error}\nto {each}") from error
        check(each.allowed or known(session) == before, f"a stranger changed what is known: {each}")


def known(session: Session) -> str:
    """All that people have said, as text."""
    return repr((session.labels(), session.classes(), session.answers("", 1)))


def judge(asked: Asked, status: int, headers: dict[bytes, bytes], body: bytes, home: str) -> None:
    """A stranger is sent away and told nothing; nobody meets a failure, or a path of this machine."""
    elsewhere = headers.get(b"location", b"/").startswith((b"//", b"/\\", b"http"))
    facts = {
        "nothing fails": 200 <= status < 500,
        "no path of this machine is told": home.encode() not in body,
        "the token is told only to who has it": TOKEN.encode() not in body,
        "no answer is taken for another kind": headers.get(b"x-content-type-options") == b"nosniff",
        "nobody is sent elsewhere": not elsewhere,
    }
    if asked.allowed:
        facts["somebody known is let in"] = status not in (401, 403, 421)
    else:
        short = len(body) < 400 or body == TOKEN_PAGE.encode()
        facts["a stranger is sent away"] = status in (401, 403, 413, 421)
        facts["a stranger is told nothing"] = short and b"account" not in body
        facts["no cookie for strangers"] = b"set-cookie" not in headers
    wrong = [fact for fact, holds in facts.items() if not holds]
    check(not wrong, f"not kept: {wrong}: {status} {body[:300]!r}\nto {asked}")


async def answered(door: SecurityMiddleware, asked: Asked) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body that come back."""
    sent: list[Any] = []
    parts = iter([asked.body])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": next(parts, b""), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": asked.method, "scheme": "http",
        "path": asked.path, "raw_path": quote(asked.path).encode(), "root_path": "", "headers": asked.headers,
        "query_string": asked.query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    await door(scope, receive, send)
    headers = {name.lower(): value for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent)


def request(chance: Random, keys: list[str]) -> Asked:
    """A request with or without a token, of any shape."""
    method = chance.choice(["GET"] * 4 + ["POST"] * 5 + ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "get"])
    path = place(chance, keys, POSTS if method == "POST" else LOOKS)
    host = chance.choice(HOSTS) if chance.random() < 0.3 else HOSTS[0]
    headers, query, shows = token(chance)
    site, foreign = origin(chance, host)
    for name in FIELDS:
        if chance.random() < 0.2:
            query.append(f"{name}={quote(str(odd(chance, keys)), errors='replace')}")
    query = [part for part in query if shows or not part.startswith(f"token={TOKEN}")]
    body = content(chance, keys) if method != "GET" else b""
    said = {b"host": host.encode(), b"content-type": b"application/json", **headers, **site}
    allowed = shows and host in ("127.0.0.1:8321", "localhost", "[::1]:8321")
    allowed &= not foreign or method in ("GET", "HEAD", "OPTIONS")
    if chance.random() < 0.1:
        said[b"content-length"] = chance.choice([b"9" * 30, b"-1", b"x", b"1" * 5000, "²".encode("latin-1")])
    return Asked(method, path, "&".join(query), list(said.items()), body, allowed)


def place(chance: Random, keys: list[str], usual: tuple[str, ...]) -> str:
    """A path that there is, or one that nobody should find."""
    if chance.random() < 0.7:
        return chance.choice(usual)
    key = chance.choice([*keys, "../../labels.db", "\0", "é日本", "x" * 3000, "%2e%2e", ""])
    return chance.choice(["/api/content/", "/api/suggestion/", "/static/", "/", "//", "/\\"]) + key


def token(chance: Random) -> tuple[dict[bytes, bytes], list[str], bool]:
    """Headers and query that show the token, a wrong one, or none; and whether it is the right one."""
    right, wrong = (
        chance.random() < 0.6,
        ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é", "\0", "%00"],
    )
    shown = TOKEN if right else chance.choice(wrong)
    way = chance.choice(["query", "cookie", "bearer", "none"])
    if way == "query":
        return {}, [f"token={quote(shown)}"], right
    if way == "cookie":
        return {b"cookie": f"other; jostle-{PORT}={shown}".encode()}, [], right
    if way == "bearer":
        return {b"authorization": f"Bearer {shown}".encode()}, [], right
    return {}, [], False


def origin(chance: Random, host: str) -> tuple[dict[bytes, bytes], bool]:
    """What a browser says of the page that sends, and whether that is another site's."""
    if chance.random() < 0.7:
        return {}, False
    if chance.random() < 0.5:
        site = chance.choice(["same-origin", "none", "cross-site", "same-site", "nonsense"])
        return {b"sec-fetch-site": site.encode()}, site not in ("same-origin", "none")
    own = f"http://{host}"
    said = chance.choice([own, "https://evil.example", "null", "http://127.0.0.1:9", "", "//", "["])
    return {b"origin": said.encode()}, said != own


def odd(chance: Random, keys: list[str]) -> Any:
    """A value of any kind."""
    deep: Any = []
    for _ in range(chance.choice([1, 50])):
        deep = [deep]
    return chance.choice(
        [
            chance.choice(keys), "good", "bad", "Ada", "", "x" * 5000, "\0", "é\ud800", "<script>", "' OR 1=1 --", None,
            True, -1, 0, 1, 3, 2**70, 1e308, float("nan"), float("inf"), [], ["good"], ["good"] * 300, {}, deep,
        ]
    )  # fmt: skip


def content(chance: Random, keys: list[str]) -> bytes:
    """A body: JSON of known fields with odd values, or no JSON at all."""
    if chance.random() < 0.15:
        return chance.choice([b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"[]", b"3", b"x" * 300_000])
    body = {name: odd(chance, keys) for name in FIELDS if chance.random() < 0.4}
    if chance.random() < 0.7:
        body["person"] = "Ada"
    if chance.random() < 0.5:
        fields = ("key", "answer", "seconds")
        body["answers"] = [{"id": f"{i:08}"} | {each: odd(chance, keys) for each in fields} for i in range(3)]
    return json.dumps(body).encode()
