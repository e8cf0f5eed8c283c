"""Servers that a command runs until Ctrl-C: a socket first, the address as the first line, then requests."""

from __future__ import annotations

import socket
import sys
import webbrowser
from typing import TYPE_CHECKING, Any

from rich.console import Console

from jostle.plumbing.sockets import listener

if TYPE_CHECKING:
    from jostle.labelling.security import Door
    from jostle.labelling.session import Session

SWITCH = (
    5e-4  # seconds that a thread computes before another may: an answer does not wait for somebody's figures
)


def open_door(
    session: Session, host: str, port: int | None, usual: int, token: str | None
) -> tuple[Door, socket.socket]:
    """A door and the socket behind it; one that other machines reach needs a token that somebody chose."""
    from jostle.labelling.security import Door, is_loopback, token_of

    if token is None and not is_loopback(host):
        raise ValueError(f"--host {host} opens the server to other machines: say who gets in with --token")
    chosen = token_of(session.project) if token is None else token
    Door(chosen, 0, host)  # a token that cannot be used is an error before anything listens
    listening = bound(host, port, usual)
    return Door(chosen, int(listening.getsockname()[1]), host), listening


def bound(host: str, port: int | None, usual: int = 0) -> socket.socket:
    """A socket that listens; without a port the usual one, or any where that is taken."""
    try:
        return listener(host, usual if port is None else port)
    except OSError as wrong:
        if port is None and not isinstance(wrong, socket.gaierror):
            return listener(host, 0)
        raise ValueError(f"cannot listen on {host}, port {port}: {wrong.strerror}") from None


def announce(address: str, door: Door, words: str, browser: bool = False) -> None:
    """Say where the server is, who can reach it and what else there is to know; open the page."""
    from jostle.labelling.security import is_loopback

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(address, markup=False)
    if not is_loopback(door.host):
        console.print(
            f"Open to everybody who reaches {door.host}, port {door.port}, and knows the token: they see the data and "
            "can answer. The connection is not encrypted.",
            markup=False,
        )
    console.print(words, markup=False)
    if browser:
        webbrowser.open(address)


def serve_until_interrupt(app: Any, listening: socket.socket, session: Session) -> None:
    """Run an application on a socket until Ctrl-C, with the session learning in the background."""
    import uvicorn

    from jostle.labelling.trainer import Trainer

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # seconds; longer than people think about an example
        timeout_graceful_shutdown=2,
    )
    sys.setswitchinterval(SWITCH)
    trainer = Trainer(session)
    trainer.start()
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        trainer.stop()
        session.close()
