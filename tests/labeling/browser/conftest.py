"""The system's Chromium, driven through a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from running_server import Running
from tools.serving import TOKEN, Server

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser; without one the tests are skipped, and say so."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="browser tests need playwright: jostle[dev]"
    )
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        places = [
            os.environ.get("JOSTLE_CHROMIUM"),
            *map(shutil.which, NAMES),
            own if Path(own).exists() else None,
        ]
        path = next(filter(None, places), None)
        if path is None:
            pytest.skip(
                "browser tests need Chromium: apt-get install chromium, or playwright install chromium, or set "
                "JOSTLE_CHROMIUM to its path"
            )
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`visit(server, name="Ada")` opens the page with the token, in a profile of its own; errors of the page fail."""
    errors: list[str] = []
    opened = []

    def open_page(
        server: Running | Server,
        name: str | None = "Ada",
        view: str = "label",
        origin: str | None = None,
        token: str = TOKEN,
        **settings: Any,
    ) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a slow machine with other tests beside it
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: "Content Security Policy" in line.text and errors.append(line.text))
        page.goto(
            f"{origin or server.origin}/?token={token}" + (f"&name={name}" if name else "") + f"#{view}"
        )
        return page

    yield open_page
    for context in opened:
        context.close()
    assert not errors


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sixty pictures in three colors; one has a name that is HTML."""
    folder = tmp_path_factory.mktemp("photos")
    colors = (200, 60, 40), (40, 160, 90), (50, 90, 200)
    for number in range(60):
        name = "<img src=x onerror=alert(1)>" if number == 7 else f"{number:02}"
        Image.new("RGB", (20 + number, 15), colors[number % 3]).save(folder / f"{name}.png")
    return folder
