"""Help texts: one sentence, options in groups with their defaults, examples of the docstring; 80 columns, no boxes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from textwrap import fill, wrap
from typing import Any

from typer.core import TyperCommand, TyperGroup

MAX_WIDTH = 80
MAX_NAMES = 26  # columns of option names; a longer name stands on a line of its own


class HelpCommand(TyperCommand):
    """Command with a plain help text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        formatter.write("\n".join(command_help(self, ctx)) + "\n")


class HelpGroup(TyperGroup):
    """Group of commands with a plain help text; a name of two words is a subcommand, such as `label export`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first words name, a subcommand first."""
        subcommand = " ".join(args[:2])
        words = [subcommand, *args[2:]] if subcommand in self.commands else args
        return super().resolve_command(ctx, words)

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
        if " " in name:
            continue  # the help of the command before the blank shows it
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
    text, _, examples = (command.help or "").partition("\n\nExamples:\n")
    yield " ".join([f"Usage: {ctx.command_path}", *map(argument_name, arguments), "[OPTIONS]"])
    for paragraph in text.split("\n\n"):
        yield from ("", fill(" ".join(paragraph.split()), width, break_on_hyphens=False))
    if subcommands := list(subcommand_rows(command, ctx)):
        yield from section("Subcommands", subcommands, width)
    if arguments:
        yield from section("Arguments", [(a.name.upper(), a.help or "") for a in arguments], width)
    panels: dict[str, list[tuple[str, str]]] = {}
    for each in options:
        panels.setdefault(_panel(each) or "Options", []).append((option_names(each), option_help(each)))
    for title, rows in sorted(panels.items(), key=lambda panel: panel[0] == "Options"):
        yield from section(title, rows, width)
    if examples:
        yield from ("", "Examples:", *(f"  {example.strip()}" for example in examples.splitlines()))


def subcommand_rows(command: Any, ctx: Any) -> Iterator[tuple[str, str]]:
    """Names and first sentences of a command's subcommands."""
    siblings = getattr(ctx.parent.command, "commands", {}) if ctx.parent else {}
    for name, each in siblings.items():
        first, _, second = name.partition(" ")
        if second and first == command.name:
            yield second, first_sentence(each.help or "")


def argument_name(argument: Any) -> str:
    """Name of an argument in a usage line, in brackets if it is optional."""
    name = argument.name.upper() + (" ..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


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
    if option.is_flag and default is not None:
        on = option.secondary_opts and f"Default: {(option.opts if default else option.secondary_opts)[0]}."
        return f"{text} {on or ''}".strip()
    if "Default:" in text or default is None or callable(default) or default in ((), [], ""):
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
