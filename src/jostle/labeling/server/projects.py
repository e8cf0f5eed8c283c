"""A user's labeling projects: the list of them, how far each is, and a server of several.

The list is a small file in the user's state folder. The server shows it at `/`, and each open project at `/p/NAME/`.
An open project has its own application, session and training process. The server's token is its owner's and opens
everything. Tokens of people open their own project, while it is open.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from filelock import BaseFileLock, FileLock
from sqlalchemy import func, select
from sqlalchemy.engine import make_url

from jostle.labeling.project import DATABASE, Settings, lock_project, write_address
from jostle.labeling.server import create_app
from jostle.labeling.server.routes import add_assets, load_template
from jostle.labeling.server.security import (
    App,
    GuessLimit,
    Receive,
    Scope,
    SecurityMiddleware,
    Send,
    ServerAuth,
    respond,
)
from jostle.labeling.session import Session
from jostle.labeling.store import Store
from jostle.labeling.store.queries import ANSWERED
from jostle.labeling.store.schema import events, examples, standing
from jostle.labeling.training.trainer import Trainer
from jostle.utils.files import write_whole

CONNECT_SECONDS = 5  # seconds that a database server may take to reply
STATE_VARIABLE = "JOSTLE_STATE"


@dataclass(frozen=True)
class ProjectEntry:
    """Project in the list."""

    name: str
    """Its name in addresses."""
    folder: str
    db: str | None = None
    """Address of its database, without a password; None: SQLite in the folder."""
    opened: float = 0.0
    """When it was opened last."""


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


def state_folder() -> Path:
    """Return the folder of the list: the variable JOSTLE_STATE, or the system's folder for state of programs."""
    from platformdirs import user_state_path

    return Path(os.environ.get(STATE_VARIABLE) or user_state_path("jostle", appauthor=False))


def read_projects() -> list[ProjectEntry]:
    """Return the projects that were opened on this machine, the latest first; a broken list is an empty one."""
    try:
        rows = json.loads((state_folder() / "projects.json").read_text(encoding="utf-8"))
        found = [ProjectEntry(**row) for row in rows]
        return sorted(found, key=lambda each: -each.opened)
    except (OSError, ValueError, TypeError):
        return []


def register_project(folder: Path, db: str | None = None) -> None:
    """Add a project to the list, or note that it was opened; a list that cannot be written stays as it is."""
    place = str(folder.resolve())
    address = make_url(db)._replace(password=None).render_as_string(False) if db and "://" in db else db
    try:
        with lock_list():
            known = read_projects()
            others = [each for each in known if each.folder != place]
            before = next((each.name for each in known if each.folder == place), None)
            name = before or free_name(folder, {each.name for each in others})
            write_list([ProjectEntry(name, place, address, time.time()), *others])
    except OSError:
        return


def forget_project(name: str) -> None:
    """Take a project off the list; its files stay."""
    with lock_list():
        write_list([each for each in read_projects() if each.name != name])


def lock_list() -> FileLock:
    """Return the lock of the list, which several servers may change."""
    state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileLock(state_folder() / ".projects.lock", timeout=10)


def write_list(entries: list[ProjectEntry]) -> None:
    """Write the list."""
    write_whole(state_folder() / "projects.json", json.dumps([asdict(each) for each in entries], indent=1))


def free_name(folder: Path, taken: set[str]) -> str:
    """Return a name for addresses: `photos` for `photos.labels`, with a number if another project has that name."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name.removesuffix(".labels")).strip("-") or "project"
    names = [plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)


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
        store = Store(with_timeout(entry.db) if entry.db else str(folder / DATABASE))
        try:
            return read_summary(entry, store)
        finally:
            store.close()
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


def find_project(given: str) -> ProjectEntry:
    """Return a project by its folder, or by its name in the list.

    Raises:
        ValueError: There is no such project.
    """
    known = read_projects()
    folder = Path(given).expanduser()
    if (folder / DATABASE).exists():
        return ProjectEntry(given, str(folder))
    place = str(folder.resolve())
    found = [each for each in known if place == each.folder] or [each for each in known if given == each.name]
    if not found:
        names = ", ".join(each.name for each in known) or "none"
        raise ValueError(f"{given} is not the folder of a labeling project, and no name in the list: {names}")
    return found[0]


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
