"""The labeling server in a thread of this process, and no process that trains beside it."""

import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from tools.serving import TOKEN

from jostle.cli.serving import bind_socket
from jostle.labeling import Session
from jostle.labeling.server import create_server_app
from jostle.labeling.server.security import App, ServerAuth
from jostle.labeling.server.serving import ProjectsServer


class Running:
    """A server in a thread: of a session, or of all projects where there is none."""

    def __init__(self, session: Session | None = None, title: str = "test", host: str = "127.0.0.1") -> None:
        listening = bind_socket(host, 0)
        self.port = listening.getsockname()[1]
        self.origin = f"http://{host}:{self.port}"
        auth = ServerAuth(TOKEN, self.port, host)
        self.session, self.projects = session, ProjectsServer(auth)
        app: App = self.projects if session is None else create_server_app(session, auth, title)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.session is not None:
            self.session.close()

    @property
    def project(self) -> Path:
        """Folder of the project."""
        assert self.session is not None
        return self.session.project

    def stop(self) -> None:
        """End it."""
        self.server.should_exit = True
        self.thread.join(10)
        self.projects.close_all()


def served(data: object, project: Path, host: str = "127.0.0.1", **settings: Any) -> Running:
    """A server of a project whose data was read; who wants a model calls `Session.train`."""
    session = Session.open(str(data), project=project, **settings)
    session.index.refresh()
    return Running(session, host=host)


class NoTrainer:
    """In place of a training process, which takes seconds to start."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def start(self) -> None:
        """Start nothing."""

    def stop(self) -> None:
        """Stop nothing."""
