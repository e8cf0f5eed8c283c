"""A Sphinx directive that runs an example and shows its code, what it printed and the pictures it made.

```{example} ../examples/theory.py
concentration.png: what the picture shows, for those who cannot see it
```
"""

from __future__ import annotations

import os
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PICTURES = {".png", ".svg"}
LONG = 60  # lines of code beyond which it is folded away


class Example(SphinxDirective):
    """Run a file and show it; lines of the body are `picture.png: what it shows`."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Code, output and pictures, in this order; long code comes last."""
        relative, absolute = self.env.relfn2path(self.arguments[0], self.env.docname)
        self.env.note_dependency(relative)
        path = Path(absolute)
        folder = Path(self.env.doctreedir) / "gallery" / path.stem
        printed = carried_out(path, folder, quick=self.config.gallery_quick)
        code = self.code(path)
        shown = [self.output(path, printed), *self.pictures(path, folder)]
        return [*shown, *code] if len(code) > 1 else [*code, *shown]

    def code(self, path: Path) -> list[nodes.Node]:
        """The example's source, folded away if it is long."""
        text = path.read_text()
        block = nodes.literal_block(text, text, language="python", classes=["example-code"])
        lines = text.count("\n")
        if lines <= LONG:
            return [block]
        name = escape(f"{path.parent.name}/{path.name}")
        opening = f"<details class='example-code'><summary>{name}, {lines} lines</summary>"
        return [nodes.raw("", opening, format="html"), block, nodes.raw("", "</details>", format="html")]

    def output(self, path: Path, printed: str) -> nodes.Node:
        """What the example printed."""
        block = nodes.literal_block(printed, printed, language="text")
        name = nodes.make_id(f"output of {path.stem}")
        return nodes.container("", block, classes=["example-output"], ids=[name])

    def pictures(self, path: Path, folder: Path) -> list[nodes.Node]:
        """What it drew, with the words of the page; a picture without words is an error."""
        words = {name: told.strip() for name, _, told in (line.partition(":") for line in self.content)}
        made = sorted(file for file in folder.rglob("*") if file.suffix in PICTURES)
        if {file.name for file in made} != set(words):
            found = ", ".join(file.name for file in made) or "none"
            raise self.error(f"{path.name} made the pictures {found}; the page describes {', '.join(words)}")
        here = Path(self.env.doc2path(self.env.docname)).parent
        return [
            nodes.image(uri=os.path.relpath(file, here), alt=words[file.name], classes=["example-picture"])
            for file in made
        ]


def carried_out(path: Path, folder: Path, quick: bool) -> str:
    """What an example prints when it is run in a folder of its own; one that fails fails the build."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.rglob("*.*"):
        old.unlink()
    options = ["--quick"] if quick and "--quick" in path.read_text() else []
    done = subprocess.run([sys.executable, path, *options], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ExtensionError(f"{path} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx; `-D gallery_quick=1` makes long examples short, for a look at the rest of the site."""
    app.add_config_value("gallery_quick", False, "env", bool)
    app.add_directive("example", Example)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
