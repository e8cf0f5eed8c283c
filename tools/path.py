"""The way of one call in figures: files and functions that it enters, and the lines and modules of the package.

    python -m tools.path            # the figures
    python -m tools.path --files    # and the files of each call, in the order they are entered

Functions stand in the order in which they are first entered; a change of file is one that lies in a different file
than the one before it. Code lines are those that are neither blank nor comment nor docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import jostle

ROOT = Path(jostle.__file__).parent
IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass
class CallPath:
    """The functions of jostle that one call enters, in order."""

    functions: list[tuple[str, str]] = field(
        default_factory=list
    )  # file and name, in the order of first entry

    @classmethod
    def of(cls, call: Callable[[], Any]) -> CallPath:
        """Follow a call; whatever it imports is loaded before, by calling it once."""
        call()
        path = cls()
        sys.setprofile(path.follow)
        try:
            call()
        finally:
            sys.setprofile(None)
        return path

    @property
    def files(self) -> list[str]:
        """The files in the order they are entered."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    @property
    def changes(self) -> int:
        """Functions that lie in a different file than the one before."""
        return sum(one[0] != next_one[0] for one, next_one in pairwise(self.functions))

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a function that is entered for the first time."""
        name = Path(frame.f_code.co_filename)
        if event == "call" and name.is_relative_to(ROOT):
            entered = str(name.relative_to(ROOT)), frame.f_code.co_qualname
            if entered not in self.functions:
                self.functions.append(entered)


def code_lines(path: Path) -> int:
    """Lines of a module that are neither blank nor comment nor docstring."""
    text = path.read_text()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in IGNORED for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def calls() -> dict[str, Callable[[], Any]]:
    """The calls that are followed: a small network, a pool of 60 examples in memory, ten picks."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4)
    ).eval()
    pool = torch.randn(60, 1, 8, 8)
    noise_stability, select = jostle.NoiseStability, jostle.select
    return {
        "NoiseStability().select": lambda: noise_stability().select(model, pool, 10, seed=0),
        'select("default")': lambda: select("default", model, pool, 10, seed=0),
    }


def main() -> None:
    """Print the figures."""
    modules = sorted(ROOT.rglob("*.py"))
    print(f"src: {sum(map(code_lines, modules)):,} code lines in {len(modules)} modules")
    for part in sorted({path.relative_to(ROOT).parts[0] for path in modules if path.parent != ROOT}):
        held = [path for path in modules if path.is_relative_to(ROOT / part)]
        print(f"  {part:<12} {sum(map(code_lines, held)):>6,} in {len(held):>3}")
    for name, call in calls().items():
        path = CallPath.of(call)
        figures = f"{len(path.files)} files, {path.changes} changes of file, {len(path.functions)} functions"
        print(f"{name}: {figures}")
        if "--files" in sys.argv:
            for file in path.files:
                print(f"  {file}: {', '.join(name for other, name in path.functions if other == file)}")


if __name__ == "__main__":
    main()
