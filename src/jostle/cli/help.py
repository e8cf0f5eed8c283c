"""Help texts: one sentence, options in groups with their defaults, three examples; 80 columns, no boxes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from textwrap import fill, wrap
from typing import Any

from typer.core import TyperCommand, TyperGroup

MAX_WIDTH = 80
MAX_NAMES = 26  # columns of option names; a longer name stands on a line of its own

EXAMPLES = {
    "label": (
        "jostle label photos/ --classes cat,dog,other",
        "jostle label reviews.csv --text review --classes good,bad",
        "jostle label --demo",
    ),
    "pick": (
        "jostle pick --model mine.py:load --pool folder:photos -n 100",
        "jostle pick --model mine.py:load --pool csv:rows.csv -n 20 --out next.csv",
        "jostle pick --model mine.py:load --pool folder:photos -n 100 --plan",
    ),
    "advise": (
        "jostle advise --model mine.py:load --pool folder:photos -n 100",
        "jostle advise --model mine.py:load --pool csv:rows.csv -n 20 --task regression",
        "jostle advise --model mine.py:load --pool folder:a --labeled folder:b -n 50",
    ),
    "demo": (
        "jostle demo",
        "jostle demo --jobs 4",
        "jostle demo --out-dir /tmp/demo",
    ),
    "run": (
        "jostle run digits --seeds 5",
        "jostle run mnist --strategies random,default,badge --jobs 2",
        "jostle run digits --dataset 'csv:rows.csv(target=kind)' --model mlp",
    ),
    "report": (
        "jostle report runs/digits",
        "jostle report runs/digits --baseline margin --goal 80,90",
        "jostle report results/mnist.tar.xz --metric macro_f1 --out-dir page",
    ),
    "compare": (
        "jostle compare runs/digits runs/mnist",
        "jostle compare runs/* --baseline default",
        "jostle compare results/arena-*.tar.xz --out-dir page",
    ),
    "list": (
        "jostle list strategies",
        "jostle list protocols",
        "jostle list datasets | grep mnist",
    ),
    "show": (
        "jostle show default",
        "jostle show mnist",
        "jostle show k-center",
    ),
}


class HelpCommand(TyperCommand):
    """Command with a plain help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        formatter.write("\n".join(command_help(self, ctx)) + "\n")


class HelpGroup(TyperGroup):
    """Group of commands with a plain help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        formatter.write("\n".join(group_help(self, ctx)) + "\n")


def group_help(group: Any, ctx: Any) -> Iterator[str]:
    """Lines of a group's help: its commands, in the order of their panels."""
    width = text_width()
    yield f"Usage: {ctx.command_path} COMMAND [OPTIONS]"
    yield from ("", fill(group.help, width))
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        panels.setdefault(_panel(command) or "Commands", []).append(
            (name, first_sentence(command.help or ""))
        )
    options = [(option_names(each), option_help(each)) for each in group.get_params(ctx)]
    for title, rows in {**panels, "Options": options}.items():
        yield from section(title, rows, width)


def command_help(command: Any, ctx: Any) -> Iterator[str]:
    """Lines of a command's help."""
    width = text_width()
    shown = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name != "argument"]
    words = " ".join(each.name.upper() + (" ..." if each.nargs != 1 else "") for each in arguments)
    yield " ".join(part for part in (f"Usage: {ctx.command_path}", words, "[OPTIONS]") if part)
    for paragraph in (command.help or "").split("\n\n"):
        yield from ("", fill(" ".join(paragraph.split()), width, break_on_hyphens=False))
    if arguments:
        yield from section("Arguments", [(a.name.upper(), a.help or "") for a in arguments], width)
    panels: dict[str, list[tuple[str, str]]] = {}
    for each in options:
        panels.setdefault(_panel(each) or "Options", []).append((option_names(each), option_help(each)))
    for title, rows in sorted(panels.items(), key=lambda panel: panel[0] == "Options"):
        yield from section(title, rows, width)
    if examples := EXAMPLES.get(command.name or "", ()):
        yield from ("", "Examples:", *(f"  {example}" for example in examples))


def section(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Lines of a titled list: names to the left, texts to the right."""
    rows = list(rows)
    column = min(MAX_NAMES, max(len(names) for names, _ in rows)) + 4
    yield from ("", f"{title}:")
    for names, text in rows:
        lines = wrap(text, width - column, break_on_hyphens=False) or [""]
        head = f"  {names}"
        if len(head) + 2 > column:
            yield head
            head = ""
        yield f"{head:<{column}}{lines[0]}".rstrip()
        yield from (" " * column + line for line in lines[1:])


def option_names(option: Any) -> str:
    """Names of an option, and of its value unless it is a switch."""
    names = ", ".join([*sorted(option.opts, key=len), *option.secondary_opts])
    return names if option.is_flag else f"{names} {value_name(option)}"


def value_name(option: Any) -> str:
    """Name of an option's value: N for a number, else VALUE unless the option names it."""
    is_number = isinstance(option.default, int | float) or getattr(option, "min", None) is not None
    return str(option.metavar or ("N" if is_number else "VALUE"))


def option_help(option: Any) -> str:
    """Text of an option with its default, or that it is required."""
    text = option.help or ""
    default = option.default
    if option.name == "help":
        return "Show this message."
    if option.required:
        return f"{text} Required."
    if option.is_flag:
        on = option.secondary_opts and f"Default: {(option.opts if default else option.secondary_opts)[0]}."
        return f"{text} {on or ''}".strip()
    if "Default:" in text or default is None or callable(default) or default in ((), []):
        return text
    return f"{text} Default: {default}."


def first_sentence(text: str) -> str:
    """First sentence of a docstring."""
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def text_width() -> int:
    """Columns of the terminal, at most 80."""
    return max(40, min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 24)).columns))


def _panel(thing: Any) -> str | None:
    panel = getattr(thing, "rich_help_panel", None)
    return panel if isinstance(panel, str) else None
