"""The few calls of Label Studio's API that push and pull need, with nothing but the standard library.

Label Studio's own package holds numpy back to old versions; these calls are stable, and tested against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from jostle.labelling.labelstudio.formats import KEY, LabelStudioError

PATIENCE = 120  # seconds; a large export takes its time
AT_ONCE = 1000  # tasks in one call, far below what Label Studio takes


@dataclass
class Client:
    """A Label Studio by its address and a key of one of its users: an access token, old style or new."""

    url: str
    key: str
    _bearer: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise LabelStudioError(
                f"expected Label Studio's address, such as http://localhost:8080; got {self.url!r}"
            )
        self.url = self.url.rstrip("/")

    def project(self, number: int) -> dict[str, Any]:
        """A project with its configuration."""
        found: dict[str, Any] = self.call("GET", f"/api/projects/{number}/")
        return found

    def create(self, title: str, configuration: str) -> int:
        """A new project; its number."""
        made = self.call("POST", "/api/projects/", {"title": title[:50], "label_config": configuration})
        return int(made["id"])

    def tasks(self, number: int) -> list[dict[str, Any]]:
        """Every task of a project with its annotations; an export, as listing is slow."""
        query = urlencode({"exportType": "JSON", "download_all_tasks": "true"})
        found: list[dict[str, Any]] = self.call("GET", f"/api/projects/{number}/export?{query}")
        return found

    def push(self, number: int, tasks: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Set tasks in a project: how many are new, and how many were there and got a new order and prediction."""
        there = {each["data"].get(KEY): each for each in self.tasks(number)}
        new = [each for each in tasks if each["data"][KEY] not in there]
        for part in portions(new):
            self.call("POST", f"/api/projects/{number}/import", part)
        again = [each for each in tasks if each["data"][KEY] in there]
        for each in again:
            self.renew(there[each["data"][KEY]], each)
        return len(new), len(again)

    def renew(self, there: Mapping[str, Any], task: Mapping[str, Any]) -> None:
        """A task that is there already: its order and prediction of today."""
        data = {**there["data"], **task["data"]}
        self.call("PATCH", f"/api/tasks/{there['id']}/", {"data": data})
        known = {each.get("model_version") for each in there.get("predictions") or []}
        for prediction in (each for each in task["predictions"] if each["model_version"] not in known):
            self.call("POST", "/api/predictions/", {"task": there["id"], **prediction})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call; an error says what Label Studio said."""
        headers = {"content-type": "application/json", "authorization": self.authorization()}
        return self.sent(method, path, body, headers)

    def authorization(self) -> str:
        """Old tokens are sent as they are; a new one, a JWT, is traded for one that lives some minutes."""
        if self.key.count(".") != 2:
            return f"Token {self.key}"
        if not self._bearer:
            reply = self.sent(
                "POST", "/api/token/refresh/", {"refresh": self.key}, {"content-type": "application/json"}
            )
            self._bearer = str(reply["access"])
        return f"Bearer {self._bearer}"

    def sent(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """Send and read JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as reply:
                return json.loads(reply.read() or b"null")
        except HTTPError as wrong:
            said = wrong.read(500).decode("utf-8", "replace")
            hint = "; is the key right?" if wrong.code in (401, 403) else ""
            raise LabelStudioError(
                f"Label Studio refused {method} {path} ({wrong.code}): {said}{hint}"
            ) from None
        except (URLError, TimeoutError, json.JSONDecodeError) as wrong:
            reason = getattr(wrong, "reason", wrong)
            raise LabelStudioError(f"no Label Studio answers at {self.url}: {reason}") from None


def portions(tasks: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Tasks in portions of one call."""
    return (tasks[start : start + AT_ONCE] for start in range(0, len(tasks), AT_ONCE))
