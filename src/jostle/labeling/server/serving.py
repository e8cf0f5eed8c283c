"""What a server of the page runs: connections with limits, and one application of several projects.

The list of a user's projects is shown at `/`, and each open project at `/p/NAME/`. An open project has its own
application, session and training process. The server's token is its owner's and opens everything. Tokens of people
open their own project, while it is open.

uvicorn waits for ever for a request that does not end. Here a request must be complete, and a reply read, in time.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from filelock import BaseFileLock
from sqlalchemy import func, select
from sqlalchemy.engine import make_url
from uvicorn.protocols.http.h11_impl import H11Protocol

from jostle.labeling.project import (
    DATABASE,
    ProjectEntry,
    Settings,
    forget_project,
    lock_project,
    read_projects,
    register_project,
    write_address,
)
from jostle.labeling.server import add_assets, create_app, load_template
from jostle.labeling.server.security import (
    App,
    GuessLimit,
    Receive,
    Scope,
    SecurityMiddleware,
    Send,
    ServerAuth,
)
from jostle.labeling.session import Session
from jostle.labeling.store import Store
from jostle.labeling.store.schema import ANSWERED, events, examples, standing
from jostle.labeling.training import Trainer

CONNECT_SECONDS = 5  # seconds that a database server may take to reply


@dataclass(frozen=True)
class ProjectSummary:
    """How far a project is."""

    entry: ProjectEntry
    state: Literal["there", "gone", "broken"]
    words: str
    """Advice, or why there are no figures."""
    examples: int = 0
    answered: int = 0
    goal: str = ""
    last: float | None = None
    """Time of the last answer."""

    @property
    def progress(self) -> str:
        """How many examples are answered, in words."""
        return f"{self.answered:,} of {self.examples:,} answered" if self.examples else "nothing read yet"

    @property
    def last_day(self) -> str:
        """Day of the last answer; empty if there is none."""
        return "" if self.last is None else f"{datetime.fromtimestamp(self.last):%Y-%m-%d}"


def summarize_all(entries: list[ProjectEntry]) -> list[ProjectSummary]:
    """Return how far some projects are."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(summarize, entries))


def summarize(entry: ProjectEntry) -> ProjectSummary:
    """Return how far a project is, by its database alone; a project that cannot be read says why."""
    folder = Path(entry.folder)
    if not (folder.is_dir() and (entry.db or (folder / DATABASE).exists())):
        return ProjectSummary(entry, "gone", "The folder of this project is gone.")
    try:
        with closing(Store(with_timeout(entry.db) if entry.db else str(folder / DATABASE))) as store:
            return read_summary(entry, store)
    except Exception as error:  # whatever is wrong with one project, the list shows the others
        return ProjectSummary(
            entry, "broken", f"This project cannot be read: {getattr(error, 'orig', error)}"
        )


def with_timeout(db: str) -> str:
    """Return the address of a database whose server must reply soon."""
    url = make_url(db)
    if url.get_backend_name() == "postgresql":
        url = url.update_query_dict({"connect_timeout": str(CONNECT_SECONDS)})
    return url.render_as_string(False)


def read_summary(entry: ProjectEntry, store: Store) -> ProjectSummary:
    """Return how far a project is; the data itself is not opened."""
    kind, stored = store.setting("answers"), store.setting("settings")
    if kind is None or stored is None:
        return ProjectSummary(entry, "there", "Nothing was asked yet.")
    settings = Settings(**stored)
    nothing: Any = None  # the figures come from the store and the rounds' folders
    session = Session(Path(entry.folder), nothing, store, kind, settings)
    here, last = store.count(examples.c.here), store.value(select(func.max(events.c.at)))
    answered = int(
        store.value(select(func.count(standing.c.key.distinct())).where(standing.c.act.in_(ANSWERED)))
    )
    goal = "" if settings.goal is None else session.type.goal_words(settings.goal, 0)
    return ProjectSummary(entry, "there", session.advice().headline, here, answered, goal, last)


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
            closed = PlainTextResponse(f"{name} was closed: open it from the list of projects.", 503)
            return await closed(scope, receive, send)
        try:
            project = await run_in_threadpool(self.open, name)
        except Exception as error:  # a project that cannot be opened harms no other
            self.problems[name] = str(error)
            failed = PlainTextResponse(f"{name} cannot be opened: {error}", 503)
            return await (RedirectResponse("/", 303) if visited else failed)(scope, receive, send)
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
