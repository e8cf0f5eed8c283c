"""Hostile names of files and classes: pages show them as words, sheets hold no formula, rounds know them again."""

from __future__ import annotations

import csv
import os
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import official_files as official

from attacks import forge
from attacks.corruptions import ANY_SHAPE, listing, stray
from attacks.driver import check

PARTS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'><b>", "&lt;b&gt;", "{{ 7*7 }}", "{% x %}", "=1+1",
    "+cmd", "-n", "--out", "@SUM(A1)", "\t=1", "a\nb", "a\rb", "a,b", '"', "'", "'=1", "\\", "..", "%2e%2e", "é",
    "日本", "\u202etxt", "\u200b", "\U0001f600", "[red]", "[/]", "$(touch escaped)", "`touch escaped`",
    ";touch escaped", "x" * 180, "CON", " ", ".", "~", "\udce9", "\udcff\udcfe", "\x01", "\x7f",
)  # fmt: skip
OPENING = ("=", "+", "-", "@", "\t", "\r")  # of a cell that a spreadsheet computes


def name(chance: Random) -> str:
    """A name that a file can have, and that nobody expects; a leading dot would hide it."""
    made = "".join(chance.choices(PARTS, k=chance.randint(1, 3))).replace("/", "-")
    return os.fsdecode(os.fsencode(made.lstrip("."))[:200]) + f"{chance.randrange(1000)}"


def attack(chance: Random, folder: Path) -> str:
    """A folder of such names, picked from twice; the second round knows what the first one picked."""
    box = folder / "box"
    box.mkdir()
    (box / "own.py").write_text(ANY_SHAPE, encoding="utf-8")
    photos, classes = box / "photos", [name(chance) for _ in range(chance.choice([0, 2]))]
    for number in range(8):
        place = photos / chance.choice(classes) if classes else photos
        place.mkdir(parents=True, exist_ok=True)
        with (place / f"{name(chance)}.png").open("wb") as file:
            official.picture(8, 8, seed=number).save(file, "PNG")
    before = listing(folder)
    first = picked(box, 1)
    again = set(first) & set(picked(box, 2, "--exclude out/1.csv"))
    check(not again, f"picked again: {again}")
    labeled(box, first, chance.choice(["labels.csv", "labels.json", "sorted"]))
    stray(before, listing(folder))
    return "names stayed names"


def succeeds(box: Path, words: str) -> None:
    code, said = forge.run(words, box)
    check(code == 0, f"{words} ended with {code}: {said[-1500:]}")


def picked(box: Path, round_: int, more: str = "") -> list[str]:
    """Names of a round, after a look at the sheet and the page that tell them."""
    words = "pick --model own.py:model --pool folder:photos -n 3 --strategy margin"
    succeeds(box, f"{words} --out out/{round_}.csv --gallery out/{round_}.html {more}")
    page((box / "out" / f"{round_}.html").read_text(encoding="utf-8"))
    with (box / "out" / f"{round_}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    check(len(rows) == 4 and len({len(row) for row in rows}) == 1, f"the sheet has other rows: {rows}")
    names = [row[0] for row in rows[1:]]
    check(not any(each.startswith(OPENING) for each in names), f"cells that compute: {names}")
    return names


class Page(HTMLParser):
    """What a browser would do with a page: its elements, what they load and what they run."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.wrong = 0, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for key, value in attrs:
            loads = key in ("src", "href") and not (value or "").startswith(("data:", "#"))
            if key.startswith("on") or loads or (value or "").strip().lower().startswith("javascript:"):
                self.wrong.append(f"<{tag} {key}={value!r}>")


def page(text: str) -> None:
    """Refuse a page in which a name became an element."""
    looked = Page()
    looked.feed(text)
    whole = not looked.wrong and looked.scripts <= 1 and text.count("<article") <= 3
    check(whole, f"a name became part of the page: {looked.wrong}, {looked.scripts} scripts")


def labeled(box: Path, names: list[str], out: str) -> None:
    """Labels for these names taken into a project, and out again."""
    with (box / "out" / "known.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["name", "label"], *([each, "yes"] for each in names)])
    succeeds(box, "label import out/known.csv photos --classes yes,no")
    succeeds(box, f"label export out/{out}")
    made = box / "out" / out
    told = len([*made.glob("yes/*.png")]) if made.is_dir() else made.read_text(encoding="utf-8").count("yes")
    check(told >= len(names), f"labels of {names} are lost: {told} of {len(names)}")
