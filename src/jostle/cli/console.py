"""Printing of commands: help texts, lines, tables, and the progress of runs, as bars or as lines."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from jostle.utils.registry import field_docs

if TYPE_CHECKING:
    from jostle.experiments.experiment import Plan
    from jostle.experiments.runners import Event, Job
    from jostle.experiments.store import Cycle
    from jostle.experiments.tables import Table


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
    docs = [field_docs(group) for group in getattr(command.callback, "groups", ())]
    for each in options:
        each.help = each.help or next((found[each.name] for found in docs if each.name in found), "")
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


PLAN_INDENT = 12  # blanks before the words of a plan
GAP = 2  # blanks between two columns of a table


def say(words: str) -> None:
    """Print a line on standard error, brackets and all, however long it is."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(words, markup=False)


def print_wrapped(text: str, indent: int) -> None:
    """Print lines on standard output, at most as wide as help texts; the rest of a long line is indented."""
    for line in text.splitlines():
        print(fill(line, text_width(), subsequent_indent=" " * indent, break_on_hyphens=False))


@contextmanager
def progress_display(console: Console, plan: Plan, processes: int) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows events: as bars on a terminal, as lines elsewhere."""
    if not console.is_terminal:
        yield Lines(plan, processes).show
        return
    display = Bars(console, plan, processes)
    with display.bars:
        yield display.show


class Clock:
    """Estimate of the time left, from the seconds that each strategy's cycles have taken so far."""

    def __init__(self, plan: Plan, processes: int) -> None:
        self.plan, self.processes = plan, processes
        self.last: dict[Job, float] = {}
        self.spent: dict[str, list[float]] = {}

    def note(self, event: Event) -> None:
        """Take the time of a cycle that ended."""
        now = time.monotonic()
        if event.kind == "cycle" and event.job in self.last:
            self.spent.setdefault(event.job.label, []).append(now - self.last[event.job])
        self.last[event.job] = now

    def left(self) -> float | None:
        """Seconds until all is done, None before the first cycle has ended."""
        means = {label: sum(each) / len(each) for label, each in self.spent.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        failed = {event.job for event in self.plan.failures}
        open_jobs = [job for job in self.plan.missing if job not in failed]
        work = sum(
            means.get(job.label, usual) * (self.plan.points - self.plan.done[job]) for job in open_jobs
        )
        return work / max(1, min(self.processes, len(open_jobs)))

    def words(self) -> str:
        """The time left in words."""
        from jostle.experiments.tables import duration

        left = self.left()
        return f"about {duration(left)} left" if left else ""


class Bars:
    """One bar for all runs, and one for each run that is computed now."""

    def __init__(self, console: Console, plan: Plan, processes: int) -> None:
        self.plan, self.clock = plan, Clock(plan, processes)
        self.rows: dict[Job, TaskID] = {}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bars = Progress(*columns, console=console, transient=True)
        self.whole = self.bars.add_task("all runs", total=len(plan.done), completed=self.finished, note="")

    @property
    def finished(self) -> int:
        """Runs that are done."""
        return len(self.plan.done) - len(self.plan.missing)

    def show(self, event: Event) -> None:
        """Update the bars."""
        self.clock.note(event)
        if event.kind == "started":
            self.rows[event.job] = self.bars.add_task(str(event.job), total=self.plan.points, note="")
        if event.cycle is not None and event.job in self.rows:
            done = event.cycle.cycle + 1
            self.bars.update(self.rows[event.job], completed=done, note=score(event.cycle))
        if event.kind in ("done", "failed") and event.job in self.rows:
            self.bars.remove_task(self.rows.pop(event.job))
        if event.kind == "failed":
            self.bars.console.print(f"failed: {event.job}: {event.reason}", markup=False, highlight=False)
        self.bars.update(self.whole, completed=self.finished, note=self.clock.words())


class Lines:
    """One line for each run that ends, and one a minute about runs that are computed."""

    every = 60.0  # seconds between lines about runs that are computed

    def __init__(self, plan: Plan, processes: int) -> None:
        self.plan, self.clock = plan, Clock(plan, processes)
        self.last_line = time.monotonic()

    def show(self, event: Event) -> None:
        """Write a line if the event deserves one."""
        self.clock.note(event)
        total, missing = len(self.plan.done), len(self.plan.missing)
        before = f"[{total - missing}/{total}] {event.job}"
        if event.kind == "failed":
            self.write(f"{before}: failed: {event.reason}")
        elif event.cycle is not None and event.kind == "done":
            self.write(f"{before}: done, {score(event.cycle)}", self.clock.words())
        elif event.cycle is not None and time.monotonic() - self.last_line > self.every:
            place = f"cycle {event.cycle.cycle + 1} of {self.plan.points}"
            self.write(f"{before}: {place}, {score(event.cycle)}", self.clock.words())

    def write(self, *parts: str) -> None:
        """One line, at once."""
        self.last_line = time.monotonic()
        print("; ".join(part for part in parts if part), file=sys.stderr, flush=True)


def score(cycle: Cycle) -> str:
    """The main metric of a cycle, as people write it."""
    from jostle.experiments.results import main_metric

    return f"{main_metric(cycle.metrics)} with {cycle.labeled} labels"


def print_table(table: Table) -> None:
    """Print a table on standard output, at most as wide as the terminal; nothing is left out where that is none.

    Headers wrap at words. If that is not enough, the last columns are left out, never the names in the first.
    """
    console = Console()
    rows = [[name, *cells] for name, *cells in zip(table.columns, *table.marked(), strict=True)]
    if not console.is_terminal:
        console = Console(width=10_000, soft_wrap=True)
    else:
        rows = fit_columns(rows, console.width)
    grid = Grid(title=table.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, (name, *_) in enumerate(rows):
        grid.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in zip(*(cells for _, *cells in rows), strict=True):
        grid.add_row(*row)
    console.print(grid)


def fit_columns(columns: list[list[str]], width: int) -> list[list[str]]:
    """Wrap the headers of columns to their cells, and leave out the last columns that do not fit."""
    fitted: list[list[str]] = []
    for header, *cells in columns:
        needed = max(map(len, [*header.split(), *(Text.from_markup(cell).plain for cell in cells)]))
        width -= needed + GAP * bool(fitted)
        if fitted and width < 0:
            break
        fitted.append(["\n".join(wrap(header, needed)), *cells])
    return fitted
