"""A real Label Studio: JOSTLE_LABEL_STUDIO names its command, as `make test-labelstudio` does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.serving import free_port

from jostle.labeling.export.json_files import KEY_FIELD, LabelStudioError, make_result, parse_tags
from jostle.labeling.labelstudio import Client

COMMAND = os.environ.get("JOSTLE_LABEL_STUDIO")
KEY_OF_USER = "0123456789abcdef0123456789abcdef01234567"
STARTING = 600  # seconds; it makes its database first, which takes one minute on a quiet machine
SAID = 3000  # characters of its log that are shown when it does not start

pytestmark = pytest.mark.skipif(not COMMAND, reason="a real Label Studio: make test-labelstudio")


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    port, home = free_port(), tmp_path_factory.mktemp("studio")
    words = ["start", "--no-browser", "--init", "--port", str(port), "--data-dir", str(home)]
    words += ["--log-level", "ERROR", "--username", "somebody@example.org", "--password", "a-long-password"]
    words += ["--user-token", KEY_OF_USER]
    settings = {
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "ML_BLOCK_LOCAL_IP": "false",  # our backend is on the same machine
        "SSRF_PROTECTION_ENABLED": "false",  # and so is what its webhook speaks to
        "PYTHONPATH": "",
    }
    log = home / "studio.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [str(COMMAND), *words],
            cwd=home,
            env={**os.environ, **settings},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    client = Client(f"http://127.0.0.1:{port}", KEY_OF_USER)
    try:
        until_ready(client, process, log)
        yield client
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until_ready(client: Client, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until Label Studio replies; one that ends or does not get there says why."""
    until = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < until:
        try:
            client.call("GET", "/api/projects/")
            return
        except LabelStudioError:
            time.sleep(1)
    how = "did not reply" if process.poll() is None else f"ended with {process.returncode}"
    pytest.fail(f"Label Studio {how}; the end of its log:\n{log.read_text(errors='replace')[-SAID:]}")


def jostle(*words: object, studio: Client) -> str:
    """A command's standard error; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "jostle", *map(str, words)],
        env={**os.environ, "LABEL_STUDIO_URL": studio.url, "LABEL_STUDIO_API_KEY": studio.key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    lines = [f'{i},"ticket {i}, <b>urgent</b>"' for i in range(30)]
    path = tmp_path / "tickets.csv"
    path.write_text("\n".join(["id,text", *lines]) + "\n", encoding="utf-8")
    return path


def annotated(studio: Client, task: dict[str, Any], answer: str | None, shown: Any) -> None:
    results = [] if answer is None else [make_result(answer, shown)]
    body = {"result": results, "was_cancelled": answer is None, "lead_time": 3.5}
    studio.call("POST", f"/api/tasks/{task['id']}/annotations/", body)


def test_push_and_pull(studio: Client, tickets: Path) -> None:
    said = jostle("labelstudio", "push", tickets, "--classes", "bug,praise", "-n", 10, studio=studio)
    assert said.startswith("10 tasks set")
    number = int(said.split("in project ")[1].split(":")[0])
    tasks = sorted(studio.tasks(number), key=lambda each: each["data"]["jostle_order"])
    assert [each["data"]["jostle_order"] for each in tasks] == list(range(10))
    assert "<b>urgent</b>" in tasks[0]["data"]["text"]
    shown = parse_tags(studio.project(number)["label_config"], "one")
    annotated(studio, tasks[0], "bug", shown)
    annotated(studio, tasks[1], "praise", shown)
    annotated(studio, tasks[2], None, shown)
    for _ in range(2):
        assert "2 answers and 1 skips read" in jostle(
            "labelstudio", "pull", tickets, "--from", number, studio=studio
        )

    from jostle.labeling import Session

    session = Session.open(tickets)
    assert session.labels() == {tasks[0]["data"][KEY_FIELD]: "bug", tasks[1]["data"][KEY_FIELD]: "praise"}
    session.close()
    assert "0 tasks set" in jostle("labelstudio", "push", tickets, "--to", number, "-n", 7, studio=studio)
    assert len(studio.tasks(number)) == 10


def test_label_studio_speaks_to_our_backend(studio: Client, tickets: Path, tmp_path: Path) -> None:
    jostle("labelstudio", "push", tickets, "--classes", "bug,praise", "-n", 5, studio=studio)
    number = max(each["id"] for each in studio.call("GET", "/api/projects/")["results"])
    command = [sys.executable, "-m", "jostle", "labelstudio", "serve", str(tickets), "--port", "0"]
    backend = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        address = backend.stderr.readline().strip()
        made = studio.call("POST", "/api/ml/", {"url": address, "project": number, "title": "jostle"})
        assert made["state"] == "CO", made  # connected: it was asked for its health and its version
        task = studio.tasks(number)[0]
        annotated(studio, task, "praise", parse_tags(studio.project(number)["label_config"], "one"))
        until_told(tickets, task["data"][KEY_FIELD], "praise")
    finally:
        os.killpg(backend.pid, signal.SIGKILL)
        backend.wait()


def until_told(tickets: Path, key: str, answer: str) -> None:
    from jostle.labeling import Session

    session, until = Session.open(tickets), time.monotonic() + 30
    while session.labels().get(key) != answer:
        assert time.monotonic() < until, session.labels()
        time.sleep(0.2)
    session.close()
