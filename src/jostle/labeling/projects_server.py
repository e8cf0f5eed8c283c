"""A server of several projects: the list of them at `/`, and each that is open at `/p/NAME/`.

An open project has its own application, session and training process. The server's token is its owner's and opens
everything. Tokens of people open their own project, while it is open.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from filelock import BaseFileLock

from jostle.labeling.pages import add_assets, load_template
from jostle.labeling.project import lock_project, write_address
from jostle.labeling.projects import (
    ProjectEntry,
    forget_project,
    read_projects,
    register_project,
    summarize_all,
)
from jostle.labeling.security import (
    App,
    GuessLimit,
    Receive,
    Scope,
    SecurityMiddleware,
    Send,
    ServerAuth,
    respond,
)
from jostle.labeling.server import create_app
from jostle.labeling.session import Session
from jostle.labeling.trainer import Trainer

PREFIX = "/p/"


@dataclass(frozen=True)
class OpenProject:
    """Project that is being served."""

    app: App
    session: Session
    trainer: Trainer
    lock: BaseFileLock

    def close(self) -> None:
        """End its training process, and let other servers have it."""
        self.trainer.stop()
        self.session.close()
        self.lock.release()


class ProjectsServer:
    """ASGI application of the list and of every open project.

    Args:
        auth: Address and token of the server.
    """

    def __init__(self, auth: ServerAuth) -> None:
        self.auth, self.guesses = auth, GuessLimit()
        self.projects: dict[str, OpenProject] = {}
        self.problems: dict[str, str] = {}  # why a project could not be opened
        self.closed: set[str] = set()  # by hand: a page that is still open does not open them again
        self.changing = threading.Lock()
        self.list = create_list_app(self)
        self.entrance = SecurityMiddleware(self.enter, auth, guesses=self.guesses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its project, or to the list."""
        found = self.projects.get(project_name(scope))
        if found is not None:
            return await found.app(in_project(scope), receive, send)
        return await self.entrance(scope, receive, send)

    async def enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the owner the list, or open the project of an address first: open pages outlive the server."""
        if not (name := project_name(scope)):
            return await self.list(scope, receive, send)
        visited = scope["path"] == f"{PREFIX}{name}/"
        if name in self.closed and not visited:
            return await respond(send, 503, f"{name} was closed: open it from the list of projects.", {})
        try:
            project = await run_in_threadpool(self.open, name)
        except Exception as error:  # a project that cannot be opened harms no other
            self.problems[name] = str(error)
            if visited:
                return await respond(send, 303, "", {"location": "/"})
            return await respond(send, 503, f"{name} cannot be opened: {error}", {})
        return await project.app(in_project(scope), receive, send)

    def open(self, name: str) -> OpenProject:
        """Open a project of the list, unless it is open.

        Raises:
            ValueError: It is not in the list, or another server has it.
        """
        with self.changing:
            if name not in self.projects:
                entries = {each.name: each for each in read_projects()}
                if name not in entries:
                    raise ValueError(f"no project of the list is called {name}")
                self.projects[name] = self.start(entries[name])
                self.problems.pop(name, None)
                self.closed.discard(name)
            return self.projects[name]

    def start(self, entry: ProjectEntry) -> OpenProject:
        """Start to serve a project."""
        folder = Path(entry.folder)
        session = Session.open(project=folder, db=entry.db)
        try:
            lock = lock_project(folder)
        except ValueError:
            session.close()
            raise
        write_address(folder, self.auth.address.replace("/?", f"{PREFIX}{entry.name}/?"))
        register_project(folder, entry.db)
        app = SecurityMiddleware(
            create_app(session, entry.name), self.auth, store=session.store, guesses=self.guesses
        )
        trainer = Trainer(session)
        trainer.start()
        return OpenProject(app, session, trainer, lock)

    def close(self, name: str) -> None:
        """Stop to serve a project."""
        with self.changing:
            self.closed.add(name)
            if (project := self.projects.pop(name, None)) is not None:
                project.close()

    def close_all(self) -> None:
        """Stop to serve every project."""
        for name in list(self.projects):
            self.close(name)


def project_name(scope: Scope) -> str:
    """Return the name of the project in a path; empty if there is none."""
    path: str = scope.get("path", "")
    return path.removeprefix(PREFIX).partition("/")[0] if path.startswith(PREFIX) else ""


def in_project(scope: Scope) -> dict[str, Any]:
    """Return the scope as the application of the project takes it."""
    return {**scope, "root_path": f"{PREFIX}{project_name(scope)}"}


def create_list_app(server: ProjectsServer) -> FastAPI:
    """Create the page of all projects."""
    app = FastAPI(title="jostle label", docs_url=None, redoc_url=None, openapi_url=None)
    template = load_template("projects.html.j2")
    add_assets(app)

    @app.get("/")
    def page() -> HTMLResponse:
        rows = summarize_all(read_projects())
        return HTMLResponse(template.render(rows=rows, open=server.projects, problems=server.problems))

    @app.post("/projects/{name}/close")
    def close(name: str) -> RedirectResponse:
        server.close(name)
        return RedirectResponse("/", 303)

    @app.post("/projects/{name}/forget")
    def forget(name: str) -> RedirectResponse:
        server.close(name)
        forget_project(name)
        return RedirectResponse("/", 303)

    return app
