"""Servers that a command runs until Ctrl-C: a socket first, the address as the first line, then requests.

`jostle label` without anything to label serves the page of all projects.
"""

from __future__ import annotations

import socket
import sys
import webbrowser
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock

from jostle.cli.console import say
from jostle.utils.sockets import is_loopback, listener

if TYPE_CHECKING:
    from jostle.cli.options import LabelOptions, ServerOptions
    from jostle.labeling.server.security import ServerAuth
    from jostle.labeling.server.serving import ProjectSummary
    from jostle.labeling.session import Session

PORT = 8321  # unless told otherwise: a page that is open finds the server again
SWITCH_SECONDS = 5e-4  # that a thread computes before another may: an answer does not wait for figures


def check_packages() -> None:
    """Raise an ImportError that names the extra if a package for labeling is missing."""
    missing = [name for name in ("fastapi", "uvicorn", "sqlalchemy") if find_spec(name) is None]
    if missing:
        raise ImportError(f"{', '.join(missing)} is missing: pip install 'jostle[label]'")


@dataclass(frozen=True)
class BoundServer:
    """Socket and token of a server that is about to run, and the lock that keeps others from a project."""

    auth: ServerAuth
    socket: socket.socket
    lock: BaseFileLock | None


def bind_server(folder: Path, page: ServerOptions, usual: int, project: bool = True) -> BoundServer:
    """Bind the socket of a server; one that other machines reach needs a token that somebody chose.

    Args:
        folder: Where the server keeps its own token.
        page: Its address, port and token; without a port the usual one, or any where that is taken.
        usual: The usual port.
        project: Whether the folder is a project, which has one server at a time.
    """
    from jostle.labeling.project import lock_project, write_address
    from jostle.labeling.server.security import ServerAuth, read_token

    if page.token is None and not is_loopback(page.host):
        raise ValueError(
            f"--host {page.host} opens the server to other machines: say who gets in with --token"
        )
    chosen = read_token(folder) if page.token is None else page.token
    ServerAuth(chosen, 0, page.host)  # a token that cannot be used is an error before anything listens
    lock = lock_project(folder) if project else None
    listening = bind_socket(page.host, page.port, usual)
    auth = ServerAuth(chosen, int(listening.getsockname()[1]), page.host)
    if project:
        write_address(folder, auth.address)
    return BoundServer(auth, listening, lock)


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
    say(address)
    if not is_loopback(auth.host):
        say(
            f"Open to everybody who reaches {auth.host}, port {auth.port}, and knows the token: they see the data and "
            "can answer. The connection is not encrypted."
        )
    say(words)
    if browser:
        webbrowser.open(address)


def serve_session(app: Any, server: BoundServer, session: Session) -> None:
    """Run an application until Ctrl-C, with the session learning in the background."""
    from jostle.labeling.training import Trainer

    trainer = Trainer(session)
    trainer.start()
    try:
        serve_until_interrupt(app, server)
    finally:
        trainer.stop()
        session.close()
        if server.lock is not None:
            server.lock.release()


def serve_until_interrupt(app: Any, server: BoundServer) -> None:
    """Run an application until Ctrl-C."""
    import uvicorn

    from jostle.labeling.server.serving import LimitedProtocol

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
    uvicorn.Server(config).run(sockets=[server.socket])


def serve_projects(page: LabelOptions) -> None:
    """Print the projects of this machine, and serve the page that opens them until Ctrl-C."""
    check_packages()
    from jostle.labeling.project import read_projects, register_project, state_folder
    from jostle.labeling.server.serving import ProjectsServer, summarize_all

    known = {each.folder for each in read_projects()}
    for database in Path().glob("*.labels/labels.db"):  # of an earlier version, which kept no list
        if str(database.parent.resolve()) not in known:
            register_project(database.parent)
    print("\n".join(project_lines(summarize_all(read_projects()))), flush=True)
    state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    server = bind_server(state_folder(), page, PORT, project=False)
    app = ProjectsServer(server.auth)
    announce(server.auth.address, server.auth, "Ctrl-C ends it; every answer is on disk.", page.browser)
    try:
        serve_until_interrupt(app, server)
    finally:
        app.close_all()


def project_lines(rows: list[ProjectSummary]) -> list[str]:
    """Return the lines of a table of projects; a word on how to begin if there are none."""
    if not rows:
        return ["No projects yet. Begin one: jostle label photos/ --classes cat,dog,other"]
    cells = [("project", "answered", "goal", "last answer", "state", "folder")]
    for each in rows:
        answered = f"{each.answered:,} of {each.examples:,}" if each.state == "there" else "-"
        name, folder, state = each.entry.name, each.entry.folder, shorten(each.words, 60, placeholder=" …")
        cells.append((name, answered, each.goal or "-", each.last_day or "-", state, folder))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
