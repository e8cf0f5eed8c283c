"""Misuse of the labeling page in a browser: stray keys, double clicks, two tabs, the back button, a killed server.

What is stored was shown to the person who gave it, what the page sent is stored, and a double click is one answer.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from labeling_data import tickets
from tools.serving import TOKEN, Server

from attacks.driver import check

EXAMPLES, ACTIONS, PATIENCE = 40, 12, 60_000
KEYS = (
    "1", "2", "3", "Enter", " ", "Backspace", "Escape", "Tab", "ArrowDown", "x", "?", "0", "Control+z", "End",
)  # fmt: skip
DEEDS = ("keys", "keys", "clicks", "double click", "tab", "back", "reload", "kill", "offline")
WATCH = """
addEventListener("DOMContentLoaded", () => {
  const look = () => {
    const key = document.querySelector(".stage")?.dataset.key;
    const person = document.querySelector("#person")?.textContent;
    if (key && person) window.wasShown(person, key);
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true });
});
"""
KEPT = "Object.keys(localStorage).filter((name) => name.includes(':kept:')).length"

DOUBLE_CLICK = """async () => {
  const key = () => document.querySelector(".stage")?.dataset.key;
  const click = (detail) =>
    document.querySelector("[data-class=good]")?.dispatchEvent(new MouseEvent("click", { bubbles: true, detail }));
  const before = key();
  click(1);
  for (let i = 0; i < 100 && key() === before; i++) await new Promise((done) => setTimeout(done, 5));
  click(2);
}"""  # the second click follows the next example at once, however slow this machine is


def chromium() -> str | None:
    """The path of the system's Chromium; None where there is none, or nothing to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("JOSTLE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@dataclass
class Visit:
    """One browser with its tabs, and what was seen in them."""

    context: Any
    server: Server
    shown: set[tuple[str, str]] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    replies: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, person: str) -> Any:
        """A tab of a person."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self.note)
        page.on("response", lambda reply: self.replies.append(reply) if "/api/answers" in reply.url else None)
        page.goto(f"{self.server.origin}/?token={TOKEN}&name={person}#label")
        return page

    def note(self, request: Any) -> None:
        """Remember the ids of answers that a page sends."""
        if request.method == "POST" and request.url.endswith("/api/answers"):
            self.sent |= {each["id"] for each in request.post_data_json["answers"]}

    def refused(self) -> set[str]:
        """The ids that the server would not have, and said so."""
        found: set[str] = set()
        for reply in self.replies:
            with suppress(Exception):
                found |= {each["id"] for each in reply.json().get("refused", [])}
        return found

    def stored(self) -> list[tuple[str, str, str, str]]:
        """Id, person, key and act of everything on disk."""
        with sqlite3.connect(self.server.project / "labels.db") as reader:
            rows = reader.execute("select id, person, key, act from acts order by seq").fetchall()
        reader.close()
        return rows


def attack(chance: Random, folder: Path) -> str:
    """Some minutes of carelessness, in a few seconds. Other tests' browser may use this thread's loop: take another."""
    path = chromium()
    if path is None:
        return "no browser"
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(misuse_page, path, chance, folder).result()


def misuse_page(path: str, chance: Random, folder: Path) -> str:
    """Start a server and a browser, misuse the page, and judge what was stored."""
    from playwright.sync_api import sync_playwright

    table = str(tickets(folder / "tickets.csv", EXAMPLES))
    words = [table, "--classes", "good,bad,ugly", "--text", "message", "--encoder", "words"]
    flags = ["--headless", "--no-sandbox", "--disable-gpu"]
    with Server(words, folder / "project") as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=flags)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        try:
            visit = Visit(context, server)
            context.expose_function("wasShown", lambda person, key: visit.shown.add((person, key)))
            context.add_init_script(WATCH)
            done = misuse(chance, visit)
            judge(visit)
        finally:
            context.close()
            browser.close()
    return done


def misuse(chance: Random, visit: Visit) -> str:
    """Do careless things; what they were."""
    pages, kills = [visit.open("Ada")], 0
    for _ in range(ACTIONS):
        page, what = chance.choice(pages), chance.choice(DEEDS)
        if what == "keys":
            ready(page)
            for key in chance.choices(KEYS, k=6):
                page.keyboard.press(key)
        elif what == "clicks":
            ready(page)
            for name in chance.choices(["good", "bad", "ugly"], k=2):
                page.click(f"[data-class={name}]")
        elif what == "double click":
            double_click(page, visit)
        elif what == "tab" and len(pages) < 3:
            pages.append(visit.open(chance.choice(["Ada", "Bo"])))
        elif what == "back":
            page.evaluate(f"location.hash = '{chance.choice(['grid', 'review', 'progress'])}'")
            page.go_back()
        elif what == "reload":
            page.reload()
        elif what == "kill":
            kills += 1
            visit.server.kill()
            page.keyboard.press(chance.choice("123"))
            visit.server.start()
        elif what == "offline":
            visit.context.set_offline(True)
            page.keyboard.press(chance.choice("123"))
            visit.context.set_offline(False)
    for page in pages:
        ready(page)
        delivered(page)
    return "a killed server" if kills else "a careless person"


def ready(page: Any) -> None:
    """Be on the view that asks, with a question or with nothing left; dialogs are closed."""
    if page.query_selector("dialog[open]"):
        page.keyboard.press("Escape")
    page.evaluate("location.hash = 'label'")
    asked = ".stage[data-key]:not([data-key=''])"
    page.wait_for_selector(f"{asked}, .stage:has-text('Nothing to ask'), .stage:has-text('answer')")


def delivered(page: Any) -> None:
    """Wait until the page holds no answer that the server has not taken."""
    end = time.monotonic() + PATIENCE / 1000
    while page.evaluate(KEPT):
        check(time.monotonic() < end, "answers stay in the page though the server is there")
        page.wait_for_timeout(100)


def double_click(page: Any, visit: Visit) -> None:
    """A double click on a class is one answer."""
    ready(page)
    delivered(page)
    before = len(visit.stored())
    page.evaluate(DOUBLE_CLICK)
    page.wait_for_timeout(400)
    delivered(page)
    more = len(visit.stored()) - before
    check(more <= 1, f"a double click stored {more} answers")


def judge(visit: Visit) -> None:
    """What is on disk was shown and sent, and what was sent is on disk."""
    stored = visit.stored()
    answers = {id: (person, key) for id, person, key, act in stored if act == "answer"}
    lost = visit.sent - {row[0] for row in stored} - visit.refused()
    check(
        set(answers.values()) <= visit.shown,
        f"stored, and never shown: {set(answers.values()) - visit.shown}",
    )
    check(not lost, f"{len(lost)} answers were sent and are not stored")
    check(set(answers) <= visit.sent, "an answer is stored that no page sent")
    check(not visit.errors, f"the page failed: {visit.errors[:3]}")
