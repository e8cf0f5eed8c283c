"""Results sent to odd places: nothing that is not jostle's own is written over, and no command goes astray."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from attacks import forge
from attacks.corruptions import judged, listing, originals
from attacks.driver import check

FRESH = ("new.csv", "new/deep/er.csv", "new.html", "new", "-", "new.json", "new.parquet")
OF_THE_USERS = (
    "own.py", "table.csv", "tiny.toml", "known.csv", "photos/bees/last.png", "runs/manifest.json",
)  # fmt: skip
FOLDERS = (".", "photos", "runs", "data", "..", "photos.labels", "/")
DEVICES = ("/dev/null", "/dev/full", "pipe", "/dev/stdin", "/proc/self/mem", "/dev/tty")
IMPOSSIBLE = ("", "x" * 300, "own.py/x.csv", "a\0b", "/proc/x.csv", "/sys/x.csv", "~nobody/x.csv", " ")
TARGETS = ("own.py", "table.csv", "nowhere", "photos", "link.csv", "../outside.csv")  # of a link
HEADS = (
    "name,position,order,score,mine",
    "name,mine",
    "name,position",
    "name,label",
    "",
)  # of a sheet by hand
POOLS = ("folder:photos", "csv:table.csv", "folder:photos(size=8)")
COMMANDS = (
    *["pick --model own.py:model --pool POOL -n 2 --strategy random --out PLACE"] * 3,
    "label export PLACE",
    "compare runs again --out-dir PLACE",
    "report runs --out-dir PLACE",
    "run tiny.toml --set rounds=1 --seeds 1 --strategies random --out-dir PLACE",
)
ALSO = ("box/runs/report", "box/photos.labels/")  # of jostle's own making already
NEW = ("box/new", "box/-", "box/ ", "box/~nobody/", *ALSO)  # where commands may write anew


def a_place(chance: Random, box: Path) -> str:
    """A place to write to, of a random kind; pipes, links and sheets are made."""
    kinds = (FRESH, OF_THE_USERS, FOLDERS, DEVICES, ("link.csv",), ("mine.csv",), IMPOSSIBLE)
    place = chance.choice(chance.choice(kinds))
    if place == "pipe":
        os.mkfifo(box / place)
    elif place == "link.csv":
        (box / place).symlink_to(chance.choice(TARGETS))
    elif (
        place == "mine.csv"
    ):  # a sheet of ours to which somebody has added a column, or one that only begins so
        (box / place).write_text(f"{chance.choice(HEADS)}\na,1,2,3,precious\n", encoding="utf-8")
    return place


def attack(chance: Random, folder: Path) -> str:
    """One command with odd places to write to."""
    box = folder / "box"
    shutil.copytree(originals(), box)
    shutil.copytree(box / "runs", box / "again")
    where = [a_place(chance, box), chance.choice(FRESH)]
    chance.shuffle(where)
    fill = {"PLACE": where[0], "POOL": chance.choice(POOLS)}
    words = [fill.get(word, word) for word in chance.choice(COMMANDS).split()]
    words += ["--gallery", where[1]] if words[0] == "pick" and chance.random() < 0.5 else []
    kept, nodes = listing(folder), special(box)
    code, said = forge.run(words, box) if "\0" not in "".join(words) else (2, "jostle: not a word")
    outcome, after = judged(code, said), listing(folder)
    changed = [name for name in kept if after.get(name) != kept[name] and not name.startswith(ALSO)]
    pages = words[0] in ("report", "compare") and "\0" not in where[0]  # fill a folder, by a link too
    named = os.path.relpath(os.path.realpath(box / where[0]), folder.resolve()) if pages else ""
    new = [name for name in after if name not in kept and not name.startswith(NEW)]
    changed += [name for name in new if not named or Path(named) not in Path(name).parents]
    same = not changed and special(box) == nodes
    check(same, f"{words} ended with {code} and changed {changed or 'a device or a link'}: {said[-600:]}")
    return "written" if outcome == "read" else outcome


def special(box: Path) -> list[tuple[str, int, str]]:
    """Links and pipes that were there, which must stay what they are; devices of the system too."""
    found = [(name, Path(name).lstat().st_mode, "") for name in ("/dev/null", "/dev/full")]
    for path in sorted(box.iterdir()):
        if path.is_symlink() or path.is_fifo():
            found.append((path.name, path.lstat().st_mode, os.readlink(path) if path.is_symlink() else ""))
    return found
