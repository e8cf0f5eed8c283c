"""Run notebooks cell by cell and store what they print: `make notebooks`. Sphinx shows them as pages of the site."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Notebook = dict[str, Any]  # as nbformat 4 stores it


def read_notebook(path: Path) -> Notebook:
    """Return the contents of an .ipynb file."""
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: Notebook) -> Iterator[dict[str, Any]]:
    """Yield the cells that hold code, in order."""
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def run(notebook: Notebook, name: str) -> list[str]:
    """Run all code cells in one namespace and return the text that each displays, as Jupyter would."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [
        run_cell("".join(cell["source"]), f"{name}[{place}]", namespace)
        for place, cell in enumerate(code_cells(notebook), 1)
    ]


def run_cell(source: str, name: str, namespace: dict[str, Any]) -> str:
    """Run one cell; return what it prints, followed by the value of an expression in its last line."""
    lines = ast.parse(source, name)
    last = lines.body.pop() if lines.body and isinstance(lines.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(lines, name, "exec"), namespace)  # nosec  # B102: our own tutorials
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # nosec B307
            if value is not None and not source.rstrip().endswith(";"):
                print(repr(value))
    return printed.getvalue()


def store(notebook: Notebook, printed: list[str]) -> str:
    """Return the notebook's file with the text that each cell displays as its output."""
    for cell, text in zip(code_cells(notebook), printed, strict=True):
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if text else []
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def stored_output(cell: dict[str, Any]) -> str:
    """Return the text that a code cell displayed when it was last stored."""
    return "".join("".join(output.get("text", [])) for output in cell["outputs"])


def to_markdown(notebook: Notebook) -> str:
    """Return a notebook as a page: its text, its code, and what the code displayed."""
    return "\n\n".join(block for cell in notebook["cells"] for block in cell_blocks(cell)) + "\n"


def cell_blocks(cell: dict[str, Any]) -> Iterator[str]:
    """Yield a cell's text, or its code and its output as blocks of their own."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"```python\n{source}\n```"
    if output := stored_output(cell):
        yield f"```text\n{output.rstrip()}\n```"


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx read notebooks."""
    from myst_parser.parsers.sphinx_ import MystParser

    class NotebookParser(MystParser):
        """Read a notebook as the Markdown page that it amounts to."""

        supported = ("notebook",)  # type: ignore[misc]

        def parse(self, inputstring: str, document: Any) -> None:
            """Parse the page."""
            super().parse(to_markdown(json.loads(inputstring)), document)

    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> None:
    """Run the notebooks that are named and write their outputs into them."""
    for path in map(Path, sys.argv[1:]):
        notebook = read_notebook(path)
        path.write_text(store(notebook, run(notebook, path.name)), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
