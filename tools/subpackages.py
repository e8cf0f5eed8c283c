"""The subpackages and what each imports: a picture and a table for docs/project/design.md.

    python -m tools.subpackages docs/project/design.md

writes the table between its two marks, and docs/figures/subpackages.svg beside it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import jostle
from jostle.utils.files import write_whole

ROOT = Path(jostle.__file__).parent
START, END = "<!-- subpackages: written by make docs -->", "<!-- end of subpackages -->"

WIDTH, BOX, TALL, ROW, MARGIN = 760, 128, 34, 74, 14  # pixels
BLUE, PALE, INK, GREY = "#3d8fd9", "#eaf3fc", "#17324d", "#8a929c"  # seen on white and on black
TITLE = (
    "The subpackages of jostle. Each imports from those that lines lead down to, or from what these import from; all "
    "may import from the lowest row"
)
STYLE = (
    f".line {{ fill: none; stroke: {GREY}; stroke-width: 1.4 }}\n"
    f".box {{ fill: {PALE}; stroke: {BLUE}; stroke-width: 1.4 }}\n"
    f"text {{ font: 600 14px system-ui, sans-serif; fill: {INK}; text-anchor: middle }}"
)


def files() -> list[Path]:
    """Every module of the package but `__init__`, which imports subpackages when they are asked for."""
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def subpackage_of(path: Path) -> str:
    """The package, or single module, that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


@cache
def syntax_nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree, parsed once."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported_from(path: Path) -> set[str]:
    """The subpackages that a file imports from, when it is loaded or later."""
    found = set()
    for node in syntax_nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jostle":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("jostle.")}
    return found


def subpackages() -> dict[str, set[str]]:
    """Subpackage -> those that it imports from; `__main__`, which only starts the command line, is left out."""
    found: dict[str, set[str]] = {}
    for path in files():
        part = subpackage_of(path)
        found.setdefault(part, set()).update(imported_from(path) - {part})
    found.pop("__main__", None)
    return found


def below(part: str, found: Mapping[str, set[str]]) -> set[str]:
    """All that a subpackage imports from, directly or not."""
    return set().union(*({other} | below(other, found) for other in found[part]))


def lowest(found: Mapping[str, set[str]]) -> list[str]:
    """Subpackages that import from none and that many import from; lines to them would hide all other lines."""
    users = {part: sum(part in others for others in found.values()) for part in found if not found[part]}
    return sorted(part for part, number in users.items() if number >= len(found) / 3)


def direct(part: str, found: Mapping[str, set[str]]) -> list[str]:
    """Subpackages that one imports from, and nothing between them does."""
    others = found[part]
    return sorted(other for other in others if not any(other in below(each, found) for each in others))


def levels_of(found: Mapping[str, set[str]]) -> list[list[str]]:
    """Subpackages from the lowest row up, each right below the lowest that imports from it."""
    users = {part: [other for other in found if part in found[other]] for part in found}

    def depth(part: str) -> int:
        return 1 + max((depth(user) for user in users[part]), default=-1)

    upper = sorted(set(found) - set(lowest(found)))
    levels: list[list[str]] = [[] for _ in range(1 + max(map(depth, upper)))]
    for part in upper:
        levels[depth(part)].append(part)
    place: dict[str, float] = {}
    for level in levels:
        over = {part: [place[user] for user in users[part] if part in direct(user, found)] for part in level}
        level.sort(key=lambda part: (mean(over[part]), part))
        place |= dict(zip(level, centers(len(level)), strict=True))
    return [lowest(found), *levels[::-1]]


def mean(places: list[float]) -> float:
    """The middle of some places, and of the picture where there is none."""
    return sum(places) / len(places) if places else WIDTH / 2


def centers(count: int) -> list[float]:
    """Where the middles of boxes lie that share a row."""
    return [WIDTH * (number + 0.5) / count for number in range(count)]


def purpose(part: str) -> str:
    """The first sentence of a subpackage's docstring."""
    path = ROOT / part / "__init__.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else ROOT / f"{part}.py").read_text())) or ""
    return inspect.cleandoc(text).split("\n\n")[0].replace("\n", " ").strip()


def picture() -> str:
    """All subpackages as boxes, and lines down to what each imports from."""
    found = subpackages()
    levels = levels_of(found)
    height = len(levels) * ROW - (ROW - TALL) + 2 * MARGIN
    place = {
        part: (x, height - MARGIN - TALL / 2 - level_number * ROW)
        for level_number, level in enumerate(levels)
        for part, x in zip(level, centers(len(level)), strict=True)
    }
    lines = [
        line(place[part], place[other])
        for part in sorted(found)
        for other in direct(part, found)
        if other not in levels[0]
    ]
    wide = WIDTH / len(levels[0]) - 2 * MARGIN
    boxes = [box(part, *place[part], wide if part in levels[0] else BOX) for part in sorted(found)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    about = [f"<title>{escape(TITLE)}</title>", f"<style>\n{STYLE}\n</style>"]
    return "\n".join([head, *about, *lines, *boxes, "</svg>\n"])


def line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the foot of one box to the head of another."""
    (x1, y1), (x2, y2) = (start[0], start[1] + TALL / 2), (end[0], end[1] - TALL / 2)
    bend = (y2 - y1) / 2
    curve = f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'<path class="line" d="M{x1:.0f} {y1:.0f} {curve}"/>'


def box(part: str, x: float, y: float, width: float) -> str:
    """A box with its name."""
    corner = f'x="{x - width / 2:.0f}" y="{y - TALL / 2:.0f}" width="{width:.0f}" height="{TALL}" rx="6"'
    return f'<g><rect class="box" {corner}/><text x="{x:.0f}" y="{y + 5:.0f}">{escape(part)}</text></g>'


def table() -> str:
    """The table, from the highest row to the lowest."""
    found = subpackages()
    rows = [
        f"| `{part}` | {purpose(part)} | {', '.join(direct(part, found)) or 'nothing'} |"
        for level in reversed(levels_of(found))
        for part in level
    ]
    return "\n".join(["| subpackage | purpose | imports from |", "|---|---|---|", *rows])


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
    write_whole(target.parent.parent / "figures" / "subpackages.svg", picture())
