"""Nobody gets in: every rule of the server is attacked, on its own and through a server."""

import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from event_loops import finish
from fastapi import HTTPException

from jostle.labeling.server.security import (
    GUESS_SECONDS,
    MAX_GUESSES,
    SECURITY_HEADERS,
    GuessLimit,
    SecurityMiddleware,
    ServerAuth,
    is_cross_site,
    read_token,
)

TOKEN = "s3cret-token"
AUTH = ServerAuth(TOKEN, port=8321)


async def inside(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the body and says that it was reached."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"inside"})


def ask(
    method: str = "GET",
    path: str = "/",
    query: dict[str, str] | None = None,
    body: list[bytes] = [b""],  # noqa: B006 - only read
    app: SecurityMiddleware | None = None,
    client: str = "10.0.0.1",
    kind: str = "http",
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Send a request through the middleware; underscores in header names stand for hyphens."""
    sent: list[Any] = []
    last = len(body) - 1
    parts = iter({"type": "http.request", "body": b, "more_body": i < last} for i, b in enumerate(body))
    shown = {"host": "127.0.0.1:8321", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": kind, "method": method, "path": path, "query_string": urlencode(query or {}).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in shown.items() if value], "client": (client, 5),
    }  # fmt: skip

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        sent.append(message)

    finish((app or SecurityMiddleware(inside, AUTH, largest=100))(scope, receive, send))
    if kind == "websocket":
        return sent[0]["code"], {}, sent[0]["type"].encode()
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


def test_without_a_token_nobody_is_let_in() -> None:
    shown: list[dict[str, Any]] = [{}, {"query": {"token": "wrong"}}, {"query": {"token": ""}}]
    shown += [{"cookie": "jostle-8321=wrong"}, {"cookie": f"jostle-9999={TOKEN}"}]  # of another port
    shown += [
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic !!!"},
        {"authorization": "Digest abc"},
    ]
    shown += [{"path": "/static/page.js"}, {"path": "/api/answers", "method": "POST"}]
    assert [ask(**each)[0] for each in shown] == [401] * len(shown)


def test_every_way_to_show_the_token() -> None:
    assert ask(cookie=f"other=1; jostle-8321={TOKEN}; bad cookie")[2] == b"inside"
    assert ask(authorization=f"Bearer {TOKEN}")[2] == b"inside"
    assert ask(authorization="Basic YW55Ym9keTpzM2NyZXQtdG9rZW4=")[2] == b"inside"
    assert ask(path="/api/project", query={"token": TOKEN})[2] == b"inside"


def test_the_token_leaves_the_address_and_becomes_a_cookie() -> None:
    status, headers, body = ask(query={"token": TOKEN, "name": "Ada & Bo"})
    assert (status, body) == (303, b"")
    assert headers["location"] == "/?name=Ada+%26+Bo"
    cookie = headers["set-cookie"]
    assert cookie.startswith(f"jostle-8321={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_entering_never_leads_to_another_site() -> None:
    for path in ("//evil.example", "/\\evil.example", "///evil.example/x"):
        location = ask(path=path, query={"token": TOKEN})[1]["location"]
        assert location.startswith("/evil.example")


OURS = ["localhost", "localhost:8321", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:8321", "LOCALHOST:1"]
OTHERS = [
    "evil.example", "evil.example:8321", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7", "[::2]", "",
    "::1", "127.0.0.1:x", "127.0.0.1@evil.example", "evil.example#localhost", "localhost/", "[::1", "0.0.0.0",
]  # fmt: skip


@pytest.mark.parametrize("host", [*OURS, *OTHERS])
def test_loopback_hosts_are_ours_and_no_others(host: str) -> None:
    assert ask(host=host, authorization=f"Bearer {TOKEN}")[0] == (200 if host in OURS else 421)


@pytest.mark.parametrize(
    ("opened", "host", "accepted"),
    [
        ("10.0.0.7", "10.0.0.7:8321", True),
        ("10.0.0.7", "localhost", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("0.0.0.0", "10.0.0.8:8321", True),
        ("0.0.0.0", "[fe80::1]:8321", True),
        ("0.0.0.0", "evil.example", False),  # a name can be rebound, an address cannot
    ],
)
def test_an_opened_server_answers_to_what_was_opened(opened: str, host: str, accepted: bool) -> None:
    assert ServerAuth(TOKEN, 8321, opened).accepts_host(host) is accepted


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"sec_fetch_site": "same-origin"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "cross-site"}, True),
        ({"sec_fetch_site": "same-site"}, True),  # another port of localhost
        ({"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1:8321"}, True),
        ({"origin": "http://127.0.0.1:8321"}, False),
        ({"origin": "http://127.0.0.1:9999"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({}, False),  # a script: no browser leaves both out
    ],
)
def test_posts_of_other_sites_are_refused(headers: dict[str, str], refused: bool) -> None:
    cookie = f"jostle-8321={TOKEN}"
    assert ask("POST", "/api/answers", cookie=cookie, **headers)[0] == (403 if refused else 200)
    assert ask("DELETE", "/api/answers", cookie=cookie, **headers)[0] == (403 if refused else 200)
    assert not is_cross_site("GET", {name.replace("_", "-"): value for name, value in headers.items()})


def test_bodies_have_a_bound_announced_or_not() -> None:
    allowed = {"authorization": f"Bearer {TOKEN}"}
    assert ask("POST", body=[b"x" * 100], **allowed)[0] == 200
    assert ask("POST", content_length="101", **allowed)[0] == 413
    assert ask("POST", content_length="many", **allowed)[0] == 413
    with pytest.raises(HTTPException, match="413"):
        ask("POST", body=[b"x" * 60, b"x" * 60], **allowed)


def test_every_answer_has_the_headers_also_a_refusal() -> None:
    for own, (_, headers, _) in (
        ({"content-security-policy"}, ask()),  # its style is allowed by a hash, nothing else is
        (set[str](), ask(host="evil.example")),
        (set[str](), ask(authorization=f"Bearer {TOKEN}")),
    ):
        assert {
            name: headers[name] for name in SECURITY_HEADERS.keys() - own
        }.items() <= SECURITY_HEADERS.items()
        assert "default-src 'none'; style-src 'sha256-" in headers["content-security-policy"] or not own
        assert "unsafe" not in headers["content-security-policy"]
    assert SECURITY_HEADERS["content-security-policy"].startswith("default-src 'self';")


def test_no_web_socket_is_opened() -> None:
    assert ask(kind="websocket", authorization=f"Bearer {TOKEN}") == (1008, {}, b"websocket.close")


def test_a_project_keeps_its_token_to_itself(tmp_path: Path) -> None:
    token = read_token(tmp_path)
    assert len(token) >= 32
    assert read_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("token", "words"),
    [*((token, "a token has letters") for token in ("", " ", "a b", "a;b", "a\nb", "ä")),
     ("1", "at least 8"), ("secret7", "at least 8")],
)  # fmt: skip
def test_a_token_that_a_cookie_cannot_hold_or_that_is_easily_guessed_is_refused(
    token: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ServerAuth(token, 80)


def test_guessing_tokens_ends_soon_and_an_old_token_is_no_guess() -> None:
    now = [0.0]
    app = SecurityMiddleware(inside, AUTH, guesses=GuessLimit(lambda: now[0]))

    def status_of(token: str, client: str) -> int:
        return ask(app=app, client=client, authorization=f"Bearer {token}")[0]

    assert {status_of("of-another-day", "10.0.0.1") for _ in range(3 * MAX_GUESSES)} == {401}
    assert [status_of(f"guess-{number}", "10.0.0.2") for number in range(MAX_GUESSES + 1)][-1] == 401
    assert status_of("another-guess", "10.0.0.2") == 429
    assert status_of(TOKEN, "10.0.0.2") == 429, "a right guess is not told apart"
    assert status_of(TOKEN, "10.0.0.1") == 200
    now[0] = GUESS_SECONDS + 1
    assert status_of(TOKEN, "10.0.0.2") == 200
