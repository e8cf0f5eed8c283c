"""The subpackages and what each imports: a picture and a table for docs/project/design.md.

    python -m tools.rooms docs/project/design.md

writes the table between its two marks, and docs/figures/rooms.svg beside it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import jostle
from jostle.utils.files import write_whole

ROOT = Path(jostle.__file__).parent
START, END = "<!-- rooms: written by make docs -->", "<!-- end of rooms -->"

WIDTH, BOX, TALL, ROW, MARGIN = 760, 128, 34, 74, 14  # pixels
BLUE, PALE, INK, GREY = "#3d8fd9", "#eaf3fc", "#17324d", "#8a929c"  # seen on white and on black
TITLE = (
    "The rooms of jostle. Each stands on those that lines lead down to, on what these stand on, and all may stand on "
    "the ground floor"
)
STYLE = (
    f".line {{ fill: none; stroke: {GREY}; stroke-width: 1.4 }}\n"
    f".box {{ fill: {PALE}; stroke: {BLUE}; stroke-width: 1.4 }}\n"
    f"text {{ font: 600 14px system-ui, sans-serif; fill: {INK}; text-anchor: middle }}"
)


def files() -> list[Path]:
    """Every module of the package but the front door, which opens rooms when they are asked for."""
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def room_of(path: Path) -> str:
    """The package, or single module, that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_from(path: Path) -> set[str]:
    """The rooms that a file imports from, when it is loaded or later."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jostle":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("jostle.")}
    return found


def rooms() -> dict[str, set[str]]:
    """Room -> the rooms that it imports from; `__main__`, which only starts the command line, is left out."""
    found: dict[str, set[str]] = {}
    for path in files():
        room = room_of(path)
        found.setdefault(room, set()).update(imported_from(path) - {room})
    found.pop("__main__", None)
    return found


def below(room: str, found: Mapping[str, set[str]]) -> set[str]:
    """All that a room stands on, directly or not."""
    return set().union(*({other} | below(other, found) for other in found[room]))


def ground(found: Mapping[str, set[str]]) -> list[str]:
    """Rooms that stand on nothing and under many others; lines to them would hide all other lines."""
    users = {room: sum(room in others for others in found.values()) for room in found if not found[room]}
    return sorted(room for room, number in users.items() if number >= len(found) / 3)


def direct(room: str, found: Mapping[str, set[str]]) -> list[str]:
    """What a room stands on and nothing between them does."""
    others = found[room]
    return sorted(other for other in others if not any(other in below(each, found) for each in others))


def floors(found: Mapping[str, set[str]]) -> list[list[str]]:
    """Rooms from the ground up, each right below the lowest that stands on it, and under those that do."""
    users = {room: [other for other in found if room in found[other]] for room in found}

    def depth(room: str) -> int:
        return 1 + max((depth(user) for user in users[room]), default=-1)

    upper = sorted(set(found) - set(ground(found)))
    levels: list[list[str]] = [[] for _ in range(1 + max(map(depth, upper)))]
    for room in upper:
        levels[depth(room)].append(room)
    place: dict[str, float] = {}
    for level in levels:
        over = {room: [place[user] for user in users[room] if room in direct(user, found)] for room in level}
        level.sort(key=lambda room: (mean(over[room]), room))
        place |= dict(zip(level, centers(len(level)), strict=True))
    return [ground(found), *levels[::-1]]


def mean(places: list[float]) -> float:
    """The middle of some places, and of the picture where there is none."""
    return sum(places) / len(places) if places else WIDTH / 2


def centers(count: int) -> list[float]:
    """Where the middles of boxes lie that share a floor."""
    return [WIDTH * (number + 0.5) / count for number in range(count)]


def what(room: str) -> str:
    """What a room says of itself, in its first sentence."""
    path = ROOT / room / "__init__.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else ROOT / f"{room}.py").read_text())) or ""
    return inspect.cleandoc(text).split("\n\n")[0].replace("\n", " ").strip()


def picture() -> str:
    """All rooms as boxes, and lines down to what each stands on."""
    found = rooms()
    levels = floors(found)
    height = len(levels) * ROW - (ROW - TALL) + 2 * MARGIN
    place = {
        room: (x, height - MARGIN - TALL / 2 - floor * ROW)
        for floor, level in enumerate(levels)
        for room, x in zip(level, centers(len(level)), strict=True)
    }
    lines = [
        line(place[room], place[other])
        for room in sorted(found)
        for other in direct(room, found)
        if other not in levels[0]
    ]
    wide = WIDTH / len(levels[0]) - 2 * MARGIN
    boxes = [box(room, *place[room], wide if room in levels[0] else BOX) for room in sorted(found)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    about = [f"<title>{escape(TITLE)}</title>", f"<style>\n{STYLE}\n</style>"]
    return "\n".join([head, *about, *lines, *boxes, "</svg>\n"])


def line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the foot of one box to the head of another."""
    (x1, y1), (x2, y2) = (start[0], start[1] + TALL / 2), (end[0], end[1] - TALL / 2)
    bend = (y2 - y1) / 2
    curve = f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'<path class="line" d="M{x1:.0f} {y1:.0f} {curve}"/>'


def box(room: str, x: float, y: float, width: float) -> str:
    """A room with its name."""
    corner = f'x="{x - width / 2:.0f}" y="{y - TALL / 2:.0f}" width="{width:.0f}" height="{TALL}" rx="6"'
    return f'<g><rect class="box" {corner}/><text x="{x:.0f}" y="{y + 5:.0f}">{escape(room)}</text></g>'


def table() -> str:
    """The same in words, from the roof to the ground."""
    found = rooms()
    rows = [
        f"| `{room}` | {what(room)} | {', '.join(direct(room, found)) or 'nothing'} |"
        for level in reversed(floors(found))
        for room in level
    ]
    return "\n".join(["| room | what it is | stands on |", "|---|---|---|", *rows])


def page(text: str) -> str:
    """The page with a fresh table between its marks."""
    head, start, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page needs the marks {START} and {END}")
    return f"{head}{START}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_whole(target, page(target.read_text()))
    write_whole(target.parent.parent / "figures" / "rooms.svg", picture())
