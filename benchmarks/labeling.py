"""`python -m benchmarks.labeling`: how long people wait for the labeling page, and what its server takes.

A folder of ten thousand pictures that were never seen is opened. Then twenty people answer a hundred thousand rows,
each about a second after having seen one, while models are trained in the background; one sits in a browser.
"""

import argparse
import csv
import json
import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tools.serving import TOKEN, Person, Server

AHEAD, FEW = 5, 2  # questions that a page has open, and how few it has when it asks for more
THINKING = 1.0  # seconds between seeing an example and answering it
LOOKING = 5.0  # seconds between two looks of a page at the figures
SHOWN = """() => new Promise((done) => {
  const stage = document.querySelector(".stage"), before = stage.dataset.key;
  let began;
  const seen = new MutationObserver(() => {
    if (stage.dataset.key === before) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));  // painted
  });
  seen.observe(stage, { attributes: true });
  setTimeout(() => done(null), 10000);
  began = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "1" }));
})"""


def rows(path: Path, n: int) -> None:
    """A table of numbers."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"x{i}" for i in range(8))])
        writer.writerows([i, *(round(draw.gauss(0, 1), 4) for _ in range(8))] for i in range(n))


def pictures(folder: Path, n: int, size: tuple[int, int] = (640, 480)) -> None:
    """Photographs of noise, small enough to be made quickly and each unlike the others."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    for number in range(n):
        pixels = draw.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        photo = Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)
        photo.save(folder / f"{number:06}.jpg", quality=80)


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def computed(pid: int) -> float:
    """Seconds that a process has computed so far, without those of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answering(person: Person, until: float, taken: list[float]) -> None:
    """Answer as the page does until the time is over; seconds from an answer to the reply."""
    questions = person.questions(AHEAD)
    while time.monotonic() < until and questions:
        time.sleep(random.expovariate(1 / THINKING))
        began = time.perf_counter()
        person.answer(questions.pop(0)["key"], random.choice("ab"))
        taken.append(time.perf_counter() - began)
        if len(questions) <= FEW:
            questions += person.questions(AHEAD, [each["key"] for each in questions])


def looking(person: Person, until: float, pages: int) -> None:
    """Look at the figures as so many open pages do."""
    while time.monotonic() < until:
        time.sleep(LOOKING / pages)
        person.call("GET", "/api/progress")


@contextmanager
def browser(server: Server) -> Iterator[Any]:
    """The page in Chromium; None where there is none."""
    path = shutil.which("chromium")
    if path is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = opened.new_page()
        page.goto(f"{server.origin}/?token={TOKEN}&name=browser")
        page.wait_for_selector(".stage[data-key]:not([data-key=''])")
        yield page
        opened.close()


def waits(folder: Path, n: int, people: int, seconds: float) -> dict[str, Any]:
    """How long people wait between an answer and the next example, with training in the background."""
    rows(folder / "rows.csv", n)
    with Server([str(folder / "rows.csv"), "--classes", "a,b"], folder / "project") as server:
        until_indexed(server)
        assert server.process is not None
        before = computed(server.process.pid)
        until = time.monotonic() + seconds
        taken: list[float] = []
        shown: list[float] = []
        crowd = [
            threading.Thread(target=answering, args=(Person(f"p{i}", server.port), until, taken))
            for i in range(people - 1)
        ]
        looks = (Person("looks", server.port), until, people)
        crowd.append(threading.Thread(target=looking, args=looks))
        with browser(server) as page:
            for each in crowd:
                each.start()
            while page is not None and time.monotonic() < until:
                page.wait_for_timeout(1000 * THINKING)
                taken_here = page.evaluate(SHOWN)
                assert taken_here is not None, "the page did not go on"
                shown.append(taken_here / 1000)
        for each in crowd:
            each.join()
        told = Person("probe", server.port).call("GET", "/api/progress")[1]
        return {
            "load of the machine": round(os.getloadavg()[0], 1),
            "answers": len(taken) + len(shown),
            "rounds of training meanwhile": told["round"],
            "a round, median s": statistics.median(rounds(folder / "project")),
            "reply, median ms": milliseconds(taken, 0.5),
            "reply, 95th percentile ms": milliseconds(taken, 0.95),
            "key to next example in a browser, median ms": milliseconds(shown, 0.5),
            "key to next example in a browser, 95th percentile ms": milliseconds(shown, 0.95),
            "server computing per answer ms": round(
                1000 * (computed(server.process.pid) - before) / (len(taken) + len(shown)), 1
            ),
            "server memory MB": round(resident(server.process.pid)),
        }


def rounds(project: Path) -> list[float]:
    """Seconds that each round took: reading, training, ranking."""
    reader = sqlite3.connect(project / "labels.db")
    found = reader.execute("select summary from rounds").fetchall()
    reader.close()
    return [json.loads(summary)["seconds"] for (summary,) in found]


def until_indexed(server: Server) -> None:
    """Until everything was read once and a first ranking is there."""
    while not Person("probe", server.port).call("GET", "/api/progress")[1]["round"]:
        time.sleep(0.5)


def milliseconds(taken: list[float], share: float) -> float | None:
    return (
        round(1000 * statistics.quantiles(taken, n=100)[round(100 * share) - 1], 1)
        if len(taken) > 1
        else None
    )


def beginning(folder: Path, n: int) -> dict[str, Any]:
    """From the command to the first picture, for a folder that was never seen."""
    pictures(folder / "photos", n)
    began = time.perf_counter()
    with Server([str(folder / "photos"), "--classes", "a,b"], folder / "photos.labels") as server:
        somebody = Person("first", server.port)
        question = somebody.questions(5)[0]
        status, _ = somebody.call("GET", question["content"]["url"])
        taken = time.perf_counter() - began
        assert status == 200
        assert server.process is not None
        return {
            "seconds to the first picture": round(taken, 2),
            "server memory MB": round(resident(server.process.pid)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labeling", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--pictures", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(beginning(Path(place), chosen.pictures), indent=1))
        print(json.dumps(waits(Path(place), chosen.rows, chosen.people, chosen.seconds), indent=1))


if __name__ == "__main__":
    main()
