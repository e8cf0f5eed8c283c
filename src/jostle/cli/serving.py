"""Servers that a command runs until Ctrl-C: a socket first, the address as the first line, then requests."""

from __future__ import annotations

import socket
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock, Timeout
from rich.console import Console

from jostle.utils.sockets import listener

if TYPE_CHECKING:
    from jostle.labeling.security import ServerAuth
    from jostle.labeling.session import Session

ADDRESS = ".server"  # file of a project: where its server is, with the token
SWITCH_SECONDS = (
    5e-4  # seconds that a thread computes before another may: an answer does not wait for somebody's figures
)


@dataclass(frozen=True)
class BoundServer:
    """Socket and token of a server that is about to run, and the lock that keeps others from the project."""

    auth: ServerAuth
    socket: socket.socket
    lock: BaseFileLock


def bind_server(session: Session, host: str, port: int | None, usual: int, token: str | None) -> BoundServer:
    """Bind the socket of a server; one that other machines reach needs a token that somebody chose."""
    from jostle.labeling.security import ServerAuth, is_loopback, read_token

    if token is None and not is_loopback(host):
        raise ValueError(f"--host {host} opens the server to other machines: say who gets in with --token")
    chosen = read_token(session.project) if token is None else token
    ServerAuth(chosen, 0, host)  # a token that cannot be used is an error before anything listens
    lock = lock_project(session.project)
    listening = bind_socket(host, port, usual)
    auth = ServerAuth(chosen, int(listening.getsockname()[1]), host)
    write_private(session.project / ADDRESS, auth.address)
    return BoundServer(auth, listening, lock)


def lock_project(project: Path) -> BaseFileLock:
    """Return the lock of a project's server, which lasts until the process ends.

    Raises:
        ValueError: Another server has the project; the message says where it is.
    """
    lock = FileLock(project / ".server.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        place = project / ADDRESS
        address = place.read_text(encoding="utf-8") if place.exists() else "another address"
        raise ValueError(
            f"a server of this project is running: open {address}, or end it before another is started"
        ) from None
    return lock


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def bind_socket(host: str, port: int | None, usual: int = 0) -> socket.socket:
    """Return a socket that listens; without a port on the usual one, or any where that is taken."""
    try:
        return listener(host, usual if port is None else port)
    except OSError as wrong:
        if port is None and not isinstance(wrong, socket.gaierror):
            return listener(host, 0)
        raise ValueError(f"cannot listen on {host}, port {port}: {wrong.strerror}") from None


def announce(address: str, auth: ServerAuth, words: str, browser: bool = False) -> None:
    """Print the address of the server, who can reach it, and `words`; open the page."""
    from jostle.labeling.security import is_loopback

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(address, markup=False)
    if not is_loopback(auth.host):
        console.print(
            f"Open to everybody who reaches {auth.host}, port {auth.port}, and knows the token: they see the data and "
            "can answer. The connection is not encrypted.",
            markup=False,
        )
    console.print(words, markup=False)
    if browser:
        webbrowser.open(address)


def serve_until_interrupt(app: Any, server: BoundServer, session: Session) -> None:
    """Run an application until Ctrl-C, with the session learning in the background."""
    import uvicorn

    from jostle.labeling.connections import LimitedProtocol
    from jostle.labeling.trainer import Trainer

    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # seconds; longer than people think about an example
        timeout_graceful_shutdown=2,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    trainer = Trainer(session)
    trainer.start()
    try:
        uvicorn.Server(config).run(sockets=[server.socket])
    finally:
        trainer.stop()
        session.close()
        server.lock.release()
