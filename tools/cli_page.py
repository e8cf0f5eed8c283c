"""The reference of the command line, written from its help texts: `python -m tools.cli_page docs/reference/cli.md`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from jostle.cli import app
from jostle.utils.files import write_whole

START, END = "<!-- help texts: written by make docs -->", "<!-- end of help texts -->"
WIDTH = 80  # columns of a help text


def page(text: str) -> str:
    """The page with fresh help texts between its marks."""
    head, start, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page needs the marks {START} and {END}")
    os.environ["COLUMNS"] = str(WIDTH)
    sections = "\n".join(section(context) for context in contexts())
    return f"{head}{START}\n{sections}\n{END}{tail}"


def contexts() -> Iterator[Any]:
    """Commands as they are called, each with its group: `jostle label export`, `jostle labelstudio push`."""
    group = get_command(app)
    yield from _contexts(group, group.make_context("jostle", ["list"], resilient_parsing=True))


def _contexts(group: Any, parent: Any) -> Iterator[Any]:
    for name, command in group.commands.items():
        context = command.context_class(command, info_name=name, parent=parent)
        if getattr(command, "commands", None):
            yield from _contexts(command, context)
        else:
            yield context


def section(context: Any) -> str:
    """Heading and help text of a command."""
    return f"## `{context.command_path}`\n\n```text\n{context.get_help().strip()}\n```\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_whole(target, page(target.read_text(encoding="utf-8")))
