"""The labeling server in a thread of this process."""

import threading
import time

import uvicorn
from tools.serving import TOKEN

from jostle.cli.serving import bind_socket
from jostle.labeling import Session
from jostle.labeling.server import create_server_app
from jostle.labeling.server.projects import ProjectsServer
from jostle.labeling.server.security import App, ServerAuth


class Running:
    """A server in a thread: of a session, or of all projects where there is none."""

    def __init__(self, session: Session | None = None, title: str = "test") -> None:
        listening = bind_socket("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        auth = ServerAuth(TOKEN, self.port)
        self.projects = ProjectsServer(auth)
        app: App = self.projects if session is None else create_server_app(session, auth, title)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    @property
    def origin(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it."""
        self.server.should_exit = True
        self.thread.join(10)
        self.projects.close_all()
