"""What tests in a browser share: tables to label, keys, and what is on disk."""

import csv
import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from running_server import Running
from tools.serving import Server

SHOWN = ".stage[data-key]:not([data-key=''])"  # an example that can be answered
LONGEST = 300  # seconds that anything may take on a busy machine


def table(path: Path, header: list[str], rows: Iterable[list[Any]]) -> str:
    """Write a csv; its path."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def on_disk(server: Running | Server, person: str = "Ada") -> list[tuple[str, Any]]:
    """All events of somebody in order: kind and value."""
    with sqlite3.connect(server.project / "labels.db") as reader:
        said = "select act, value from acts where person = ? order by seq"
        found = reader.execute(said, [person]).fetchall()
    reader.close()
    return [(act, None if value is None else json.loads(value)) for act, value in found]


def answered(server: Running | Server) -> int:
    """How many examples have an answer on disk; the figures of the page may be some seconds old."""
    with sqlite3.connect(server.project / "labels.db") as reader:
        said = "select count(distinct key) from standing where act in ('answer', 'correction')"
        (found,) = reader.execute(said).fetchone()
    reader.close()
    return int(found)


def expect(page: Any, found: Callable[[], Any], wanted: Any) -> None:
    """Wait until something is as wanted: the page goes on before the server's reply where that takes long."""
    end = time.monotonic() + LONGEST
    while found() != wanted and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert found() == wanted


def shown(page: Any) -> str:
    """The key of the example on the stage, once there is one."""
    page.wait_for_selector(SHOWN)
    return str(page.get_attribute(".stage", "data-key"))


def answered_by(page: Any, *keys: str) -> str:
    """Press keys and wait for another example; the key of the one before."""
    before = shown(page)
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_selector(f"{SHOWN}:not([data-key='{before}'])")
    return before


def problems(page: Any) -> list[str]:
    """What axe-core finds wrong with a page: rule, and the elements."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core comes with jostle[test]"
    )
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found]
