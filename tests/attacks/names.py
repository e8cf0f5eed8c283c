"""Hostile names of files and classes: pages show them as words, sheets hold no formula, rounds know them again."""

from __future__ import annotations

import csv
import os
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import official_files as official

from attacks.corruptions import ANY_SHAPE, command, listing, stray
from attacks.driver import BrokenPromiseError

PARTS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'><b>", "&lt;b&gt;", "{{ 7*7 }}", "{% x %}", "=1+1",
    "+cmd", "-n", "--out", "@SUM(A1)", "\t=1", "a\nb", "a\rb", "a,b", '"', "'", "'=1", "\\", "..", "%2e%2e", "é",
    "日本", "\u202etxt", "\u200b", "\U0001f600", "[red]", "[/]", "$(touch escaped)", "`touch escaped`",
    ";touch escaped", "x" * 180, "CON", " ", ".", "~", "\udce9", "\udcff\udcfe", "\x01", "\x7f",
)  # fmt: skip
OPENING = ("=", "+", "-", "@", "\t", "\r")  # of a cell that a spreadsheet computes


def name(chance: Random) -> str:
    """A name that a file can have, and that nobody expects; a leading dot would hide it."""
    made = (
        "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 3))).replace("/", "-").replace("\0", "")
    )
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
    second = picked(box, 2, "--exclude", "out/1.csv")
    if set(first) & set(second):
        raise BrokenPromiseError(f"picked again: {set(first) & set(second)}")
    labeled(box, first, chance.choice(["labels.csv", "labels.json", "sorted"]))
    stray(before, listing(folder))
    return "names stayed names"


def picked(box: Path, round_: int, *more: str) -> list[str]:
    """Names of a round, after a look at the sheet and the page that tell them."""
    words = ["pick", "--model", "own.py:model", "--pool", "folder:photos", "-n", "3", "--strategy", "margin"]
    code, said = command(
        box, [*words, "--out", f"out/{round_}.csv", "--gallery", f"out/{round_}.html", *more]
    )
    if code:
        raise BrokenPromiseError(f"it ended with {code}: {said[-1500:]}")
    page(box / "out" / f"{round_}.html")
    return sheet(box / "out" / f"{round_}.csv")


def sheet(path: Path) -> list[str]:
    """The names in a sheet, none of which a spreadsheet would compute."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if len(rows) != 4 or any(len(row) != len(rows[0]) for row in rows):
        raise BrokenPromiseError(f"the sheet has other rows: {rows}")
    names = [row[0] for row in rows[1:]]
    if formulas := [each for each in names if each.startswith(OPENING)]:
        raise BrokenPromiseError(f"cells that compute: {formulas}")
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


def page(path: Path) -> None:
    """Refuse a page in which a name became an element."""
    text = path.read_text(encoding="utf-8")
    looked = Page()
    looked.feed(text)
    if looked.wrong or looked.scripts > 1 or text.count("<article") > 3:
        raise BrokenPromiseError(f"a name became part of the page: {looked.wrong}, {looked.scripts} scripts")


def labeled(box: Path, names: list[str], out: str) -> None:
    """Labels for these names taken into a project, and out again."""
    rows = [["name", "label"], *([each, "yes"] for each in names)]
    with (box / "out" / "known.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    for words in (["import", "out/known.csv", "photos", "--classes", "yes,no"], ["export", f"out/{out}"]):
        code, said = command(box, ["label", *words])
        if code:
            raise BrokenPromiseError(f"label {words} ended with {code}: {said[-1500:]}")
    made = box / "out" / out
    told = len([*made.glob("yes/*.png")]) if made.is_dir() else made.read_text(encoding="utf-8").count("yes")
    if told < len(names):
        raise BrokenPromiseError(f"labels of {names} are lost: {told} of {len(names)}")
