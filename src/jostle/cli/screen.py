"""What a user sees while runs are under way: a live board on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table as Grid

from jostle.results.cycles import Cycle
from jostle.results.metrics import main_metric
from jostle.results.tables import Table, duration
from jostle.runs.experiment import Plan
from jostle.runs.workers import Event, Job, Tell


def progress_display(console: Console, processes: int) -> Board | Lines:
    """A board on a terminal, lines elsewhere."""
    return Board(console, processes) if console.is_terminal else Lines(processes)


class Clock:
    """An honest guess of the time left, from what each strategy's cycles have taken so far."""

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
        left = self.left()
        return f"about {duration(left)} left" if left else ""


class Board:
    """All runs as one bar, and a bar for each that is under way."""

    def __init__(self, console: Console, processes: int) -> None:
        self.console, self.processes = console, processes
        self.rows: dict[Job, TaskID] = {}

    @contextmanager
    def shown(self, plan: Plan) -> Iterator[Tell]:
        """Draw while the runs go on."""
        self.plan, self.clock = plan, Clock(plan, self.processes)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as bars:
            self.bars = bars
            self.whole = bars.add_task("all runs", total=len(plan.done), completed=self.finished, said="")
            yield self.hear

    @property
    def finished(self) -> int:
        """Runs that are done."""
        return len(self.plan.done) - len(self.plan.missing)

    def hear(self, event: Event) -> None:
        """Move the bars."""
        self.clock.note(event)
        if event.kind == "began":
            row = self.bars.add_task(str(event.job), total=self.plan.points, said="")
            self.rows[event.job] = row
        if event.cycle is not None and event.job in self.rows:
            done = event.cycle.cycle + 1
            self.bars.update(self.rows[event.job], completed=done, said=score(event.cycle))
        if event.kind in ("done", "failed") and event.job in self.rows:
            self.bars.remove_task(self.rows.pop(event.job))
        if event.kind == "failed":
            self.bars.console.print(f"failed: {event.job}: {event.reason}", markup=False, highlight=False)
        self.bars.update(self.whole, completed=self.finished, said=self.clock.words())


class Lines:
    """A line for each run that ends, and now and then one that tells where the others are."""

    every = 60.0  # seconds between lines about runs under way

    def __init__(self, processes: int) -> None:
        self.processes = processes

    @contextmanager
    def shown(self, plan: Plan) -> Iterator[Tell]:
        """Write to standard error while the runs go on."""
        self.plan, self.clock, self.spoke = plan, Clock(plan, self.processes), time.monotonic()
        yield self.hear

    def hear(self, event: Event) -> None:
        """Write a line where there is something to say."""
        self.clock.note(event)
        total, missing = len(self.plan.done), len(self.plan.missing)
        before = f"[{total - missing}/{total}] {event.job}"
        if event.kind == "failed":
            self.write(f"{before}: failed: {event.reason}")
        elif event.cycle is not None and event.kind == "done":
            self.write(f"{before}: done, {score(event.cycle)}", self.clock.words())
        elif event.cycle is not None and time.monotonic() - self.spoke > self.every:
            place = f"cycle {event.cycle.cycle + 1} of {self.plan.points}"
            self.write(f"{before}: {place}, {score(event.cycle)}", self.clock.words())

    def write(self, *parts: str) -> None:
        """One line, at once."""
        self.spoke = time.monotonic()
        print("; ".join(part for part in parts if part), file=sys.stderr, flush=True)


def score(cycle: Cycle) -> str:
    """The main metric of a cycle, as people write it."""
    return f"{main_metric(cycle.metrics)} with {cycle.labelled} labels"


def print_table(table: Table) -> None:
    """A table on standard output; nothing is cut where that is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000, soft_wrap=True)
    grid = Grid(title=table.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(table.columns):
        grid.add_column(name, justify="left" if place == 0 else "right", no_wrap=not console.is_terminal)
    for row in table.marked():
        grid.add_row(*row)
    console.print(grid)
