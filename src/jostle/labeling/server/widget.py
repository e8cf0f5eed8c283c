"""The question view in a notebook: the page's own modules in a frame, over the messages of a widget.

A message is a call of the page. It is answered by the page's routes in this process, so that nothing listens on a port.
"""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from markupsafe import Markup

from jostle.labeling.answers import clean_person_name
from jostle.labeling.server import create_app, load_template
from jostle.labeling.sources import GoneError

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError(f"{missing.name} is missing: pip install 'jostle[label,notebook]'") from None

if TYPE_CHECKING:
    from jostle.labeling.session import Session

STATIC = files("jostle.labeling.server") / "static"
STYLES = ("page.css", "guide.css")
PICTURE = re.compile(r'"(/api/content/(\w+))"')  # address of a picture in a reply
IMPORT = re.compile(r'^import \{ ([^}]*) \} from "\./(\w+\.js)";\n', re.M)
EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.M)


class LabelWidget(anywidget.AnyWidget):
    """Question view of a session for one person.

    Args:
        session: The project.
        person: Name of the person who answers.
        height: Height of the view, as in CSS.
    """

    _esm = (STATIC / "widget.js").read_text(encoding="utf-8")
    height = traitlets.Unicode("40rem").tag(sync=True)

    def __init__(self, session: Session, person: str = "you", height: str = "40rem") -> None:
        super().__init__(height=height)
        self.session, self.person = session, clean_person_name(person)
        self._app = create_app(session, session.project.stem)
        self.on_msg(self._reply)

    def _reply(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """Answer one call of the frame; pictures that the reply names come with it."""
        if message["address"] == "/notebook":
            status, body = 200, notebook_document(self.person)
        else:
            with ThreadPoolExecutor(1) as aside:  # the loop of this thread is the notebook's
                call = run_route(self._app, message["address"], message["body"])
                status, body = aside.submit(asyncio.run, call).result()
        addresses, pictures = [], []
        for address, key in dict.fromkeys(PICTURE.findall(body)):
            try:
                found = self.session.content(key)
            except (GoneError, ValueError):
                continue  # the frame says that it cannot be shown
            addresses.append({"address": address, "mime": found.mime})
            pictures.append(found.data)
        self.send({"id": message["id"], "status": status, "body": body, "addresses": addresses}, pictures)


async def run_route(app: Any, address: str, body: str | None) -> tuple[int, str]:
    """Call a route of the page: a get, or a post where there is a body. Return its status and reply."""
    parts, sent = urlsplit(address), list[dict[str, Any]]()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if body is None else "POST",
        "path": unquote(parts.path),
        "query_string": parts.query.encode(),
        "headers": [(b"content-type", b"application/json")],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": (body or "").encode()}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]).decode()


def notebook_document(person: str) -> str:
    """Return the document of the frame, which needs no other file."""
    styles = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    script = bundle("notebook.js").replace("</script", "<\\/script")
    template = load_template("notebook.html.j2")
    # both are files of this package
    return template.render(person=person, styles=Markup(styles), script=Markup(script))  # nosec B704


def bundle(entry: str) -> str:
    """Return a module of the page with all that it imports, as one script without imports."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        code = (STATIC / name).read_text(encoding="utf-8")
        for _, other in IMPORT.findall(code):
            add(other)
        code = IMPORT.sub(lambda found: f"const {{ {found[1]} }} = modules[{json.dumps(found[2])}];\n", code)
        names = ", ".join(name for _, name in EXPORT.findall(code))
        code = EXPORT.sub(lambda found: found[1], code)
        made[name] = f"modules[{json.dumps(name)}] = (() => {{\n{code}\nreturn {{ {names} }};\n}})();"

    add(entry)
    return "\n".join(["const modules = {};", *made.values()])
