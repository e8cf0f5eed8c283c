"""Results sent to odd places: nothing that is not jostle's own is written over, and no command goes astray."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from attacks.corruptions import command, judged, listing, originals
from attacks.driver import BrokenPromiseError

Place = Callable[[Random, Path], str]


def fresh(chance: Random, box: Path) -> str:
    return chance.choice(["new.csv", "new/deep/er.csv", "new.html", "new", "-", "new.json", "new.parquet"])


def of_the_users(chance: Random, box: Path) -> str:
    return chance.choice(
        ["own.py", "table.csv", "tiny.toml", "known.csv", "photos/bees/last.png", "runs/manifest.json"]
    )


def a_folder(chance: Random, box: Path) -> str:
    return chance.choice([".", "photos", "runs", "data", "..", "photos.labels", "/"])


def a_device(chance: Random, box: Path) -> str:
    os.mkfifo(box / "pipe")
    return chance.choice(["/dev/null", "/dev/full", "pipe", "/dev/stdin", "/proc/self/mem", "/dev/tty"])


def a_link(chance: Random, box: Path) -> str:
    target = chance.choice(["own.py", "table.csv", "nowhere", "photos", "link.csv", "../outside.csv"])
    (box / "link.csv").symlink_to(target)
    return "link.csv"


def hand_made(chance: Random, box: Path) -> str:
    """A sheet of ours to which somebody has added a column, or one that only begins like it."""
    head = chance.choice(["name,position,order,score,mine", "name,mine", "name,position", "name,label", ""])
    (box / "mine.csv").write_text(f"{head}\na,1,2,3,precious\n", encoding="utf-8")
    return "mine.csv"


def impossible(chance: Random, box: Path) -> str:
    return chance.choice(
        ["", "x" * 300, "own.py/x.csv", "a\0b", "/proc/x.csv", "/sys/x.csv", "~nobody/x.csv", " "]
    )


PLACES: list[Place] = [fresh, of_the_users, a_folder, a_device, a_link, hand_made, impossible]
ALSO = ("box/runs/report", "box/photos.labels/")  # of jostle's own making already
NEW = ("box/new", "box/-", "box/ ", "box/~nobody/", *ALSO)  # where commands may write anew


def attack(chance: Random, folder: Path) -> str:
    """One command with odd places to write to."""
    box = folder / "box"
    shutil.copytree(originals(), box)
    shutil.copytree(box / "runs", box / "again")
    before = listing(box.parent)
    where = [chance.choice(PLACES)(chance, box), fresh(chance, box)]
    chance.shuffle(where)
    made = {name: text for name, text in listing(box.parent).items() if name not in before}
    words = chance.choice(COMMANDS)(chance, where)
    nodes = special(box)
    code, said = command(box, words) if "\0" not in "".join(words) else (2, "jostle: not a word")
    outcome = judged(code, said)
    after = listing(box.parent)
    kept = {**before, **made}
    changed = [name for name in kept if after.get(name) != kept[name] and not name.startswith(ALSO)]
    pages = words[0] in ("report", "compare") and "\0" not in where[0]  # fill a folder, by a link too
    named = os.path.relpath(os.path.realpath(box / where[0]), folder.resolve()) if pages else ""
    new = [name for name in after if name not in kept and not name.startswith(NEW)]
    changed += [name for name in new if not named or Path(named) not in Path(name).parents]
    if changed or special(box) != nodes:
        raise BrokenPromiseError(
            f"{words} ended with {code} and changed {changed or 'a device or a link'}: {said[-600:]}"
        )
    return "written" if outcome == "read" else outcome


def special(box: Path) -> list[tuple[str, int, str]]:
    """Links and pipes that were there, which must stay what they are; devices of the system too."""
    found = [(name, Path(name).lstat().st_mode, "") for name in ("/dev/null", "/dev/full")]
    for path in sorted(box.iterdir()):
        if path.is_symlink() or path.is_fifo():
            found.append((path.name, path.lstat().st_mode, os.readlink(path) if path.is_symlink() else ""))
    return found


def pick(chance: Random, where: list[str]) -> list[str]:
    pool = chance.choice(["folder:photos", "csv:table.csv", "folder:photos(size=8)"])
    words = [
        "pick",
        "--model",
        "own.py:model",
        "--pool",
        pool,
        "-n",
        "2",
        "--strategy",
        "random",
        "--out",
        where[0],
    ]
    return words + (["--gallery", where[1]] if chance.random() < 0.5 else [])


def label(chance: Random, where: list[str]) -> list[str]:
    return ["label", "export", where[0]]


def compare(chance: Random, where: list[str]) -> list[str]:
    return ["compare", "runs", "again", "--out-dir", where[0]]


def report(chance: Random, where: list[str]) -> list[str]:
    return ["report", "runs", "--out-dir", where[0]]


def run(chance: Random, where: list[str]) -> list[str]:
    return [
        "run",
        "tiny.toml",
        "--set",
        "rounds=1",
        "--seeds",
        "1",
        "--strategies",
        "random",
        "--out-dir",
        where[0],
    ]


COMMANDS = [pick, pick, pick, label, report, compare, run]
