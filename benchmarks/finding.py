"""`python -m benchmarks.finding`: the map at a hundred thousand examples, and what answering many at once saves.

Rows of a table are mapped in the background; then a browser moves and zooms the map, and a second page answers while
the map is open. A simulated person labels digits one by one, and with the grid; the seconds that each look and click
takes are assumptions, printed with the result.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.serving import TOKEN, Person, Server

from benchmarks.labeling import SHOWN, browser, milliseconds, pictures, rows
from jostle.labeling import Session
from jostle.labeling.sources import DIGIT_CLASSES, Digits
from jostle.labeling.store.edits import BulkAnswer, tell_many

LOOK, KEY = 1.0, 0.4  # seconds to look at one example alone, and to press its key
GLANCE, CLICK, PAGE = 0.3, 0.8, 1.5  # seconds for one of many tiles, for selecting one, and for a page
TILES = 48  # of a page
FRAMES = """async (seconds) => {
  const canvas = document.querySelector(".dots"), times = [];
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  for (let began = performance.now(), i = 0; performance.now() - began < 1000 * seconds; i++) {
    const key = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"][Math.floor(i / 20) % 4];
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
    const deltaY = i % 80 < 40 ? -30 : 30;
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: left + width / 2, clientY: top + height / 2 }));
    times.push(await frame());
  }
  return times;
}"""


def map_open(folder: Path, n: int, answers: int) -> dict[str, Any]:
    """Seconds until the map is there, frames a second while it moves, and the wait for the next example beside it."""
    rows(folder / "rows.csv", n)
    with Server([str(folder / "rows.csv"), "--classes", "a,b"], folder / "project") as server:
        probe = Person("probe", server.port, patience=60)
        while not probe.call("GET", "/api/progress")[1]["round"]:
            time.sleep(0.2)
        began = time.perf_counter()
        seconds = {stage: wait_for(probe, stage, began) for stage in ("pca", "neighbors")}
        with browser(server) as page:
            if page is None:
                raise SystemExit("this benchmark needs Chromium")
            found = page.context.browser.new_page(viewport={"width": 1600, "height": 900})
            found.goto(f"{server.origin}/?token={TOKEN}&name=map#find")
            found.wait_for_selector(".legend span", state="attached", timeout=60_000)
            found.bring_to_front()
            times = found.evaluate(FRAMES, 5)
            gaps = [b - a for a, b in pairwise(times)]
            page.bring_to_front()
            shown = []
            for _ in range(answers):
                page.wait_for_timeout(300)
                shown.append(page.evaluate(SHOWN) / 1000)
    return {
        "examples": n,
        "load of the machine": round(os.getloadavg()[0], 1),
        "seconds from the embeddings to the first map": seconds["pca"],
        "seconds from the embeddings to the map of neighbors": seconds["neighbors"],
        "frames a second while it moves": round(1000 / statistics.mean(gaps), 1),
        "slowest of 20 frames ms": round(statistics.quantiles(gaps, n=20)[-1], 1),
        "key to next example with the map open, median ms": milliseconds(shown, 0.5),
        "key to next example with the map open, 95th percentile ms": milliseconds(shown, 0.95),
    }


def wait_for(probe: Person, stage: str, began: float) -> float:
    """Seconds until the map has come so far."""
    while probe.call("GET", "/api/map")[1]["stage"] not in (stage, "neighbors"):
        time.sleep(0.2)
    return round(time.perf_counter() - began, 1)


def first_model(folder: Path, n: int) -> dict[str, Any]:
    """Seconds to the first question and the first model of a folder that was never seen; somebody answers every 2 s."""
    photos = folder / "photos"
    pictures(photos, n, (320, 240))
    began = time.perf_counter()
    with Server([str(photos), "--classes", "a,b"], folder / "photos.labels") as server:
        somebody = Person("first", server.port, patience=60)
        asked, answers = None, 0
        while True:
            question = somebody.questions(1)[0]
            asked = asked or time.perf_counter() - began
            somebody.answer(question["key"], "ab"[answers % 2])
            answers += 1
            time.sleep(2)
            found = somebody.call("GET", "/api/progress")[1]
            if found["models"]:
                break
    return {
        "pictures": n,
        "load of the machine": round(os.getloadavg()[0], 1),
        "seconds to the first question": round(asked, 1),
        "seconds to the first model": round(time.perf_counter() - began, 1),
        "answers until then": answers,
    }


def one_by_one(folder: Path, n: int) -> dict[str, Any]:
    """Label digits as they are asked; the person is never wrong."""
    session = Session.open(Digits(), project=folder, answers=DIGIT_CLASSES, encoder="pixels")
    truth = Digits().column("digit")
    for question in session.ask(n):
        session.tell(question.key, str(truth[question.name]))
    return outcome(session, n * (LOOK + KEY))


def at_once(folder: Path, n: int, first: int) -> dict[str, Any]:
    """Label some digits as they are asked, then all others page by page in the grid."""
    session = Session.open(Digits(), project=folder, answers=DIGIT_CLASSES, encoder="pixels")
    truth = {name: str(digit) for name, digit in Digits().column("digit").items()}
    session.train()
    seconds, given, page = first * (LOOK + KEY), first, 0
    for question in session.ask(first):
        session.tell(question.key, truth[question.name])
    session.train()
    while given < n:
        name = DIGIT_CLASSES[page % len(DIGIT_CLASSES)]
        page += 1
        cards = session.grid(name, min(TILES, n - given))
        wrong = [card for card in cards if truth[card.question.name] != name]
        seconds += PAGE + GLANCE * len(cards) + (CLICK + KEY) * len(wrong)
        answers = [
            BulkAnswer(f"{page}-{card.question.key}", card.question.key, truth[card.question.name])
            for card in cards
        ]
        if answers:
            tell_many(session, f"page-{page:06}", answers, "you")
        given += len(answers)
        if page % len(DIGIT_CLASSES) == 0:
            session.train()
    return outcome(session, seconds)


def outcome(session: Session, seconds: float) -> dict[str, Any]:
    """Answers per minute, and how many of them are right."""
    truth = Digits().column("digit")
    labels = session.labels()
    names = session.store.names(list(labels))
    right = sum(str(truth[names[key]]) == label for key, label in labels.items())
    session.close()
    return {
        "answers": len(labels),
        "minutes": round(seconds / 60, 1),
        "answers per minute": round(60 * len(labels) / seconds, 1),
        "right": round(right / len(labels), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finding", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pictures", type=int, default=50_000)
    parser.add_argument("--answers", type=int, default=50, help="that are given with the map open")
    parser.add_argument("--digits", type=int, default=1_500, help="that the simulated person labels")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jostle-"))
    try:
        print(json.dumps({"a new folder": first_model(folder, given.pictures)}, indent=2), flush=True)
        print(json.dumps({"the map": map_open(folder, given.rows, given.answers)}, indent=2), flush=True)
        found = {
            "one by one": one_by_one(folder / "one", given.digits),
            "at once after 100": at_once(folder / "many", given.digits, 100),
            "assumed seconds": {
                "look": LOOK,
                "key": KEY,
                "glance at a tile": GLANCE,
                "click": CLICK,
                "page": PAGE,
            },
        }
        print(json.dumps(found, indent=2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
