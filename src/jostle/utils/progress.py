"""Progress bars for long work, with the time left: shown on a terminal, silent everywhere else."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Advance = Callable[[float], None]

_running: ContextVar[Advance | None] = ContextVar("running", default=None)


def note(steps: float) -> None:
    """So many steps are done of the work whose bar is running, for those who do not know of it: selectors."""
    advance = _running.get()
    if advance is not None:
        advance(steps)


@contextmanager
def noted(advance: Advance) -> Iterator[None]:
    """Let `note` go to this bar."""
    token = _running.set(advance)
    try:
        yield
    finally:
        _running.reset(token)


@contextmanager
def progress_bar(what: str, total: int, show: bool | None = None, speed: bool = False) -> Iterator[Advance]:
    """Yield `advance(steps)`; show=None shows the bar when standard error is a terminal; `speed` shows it too."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda steps: None
        return
    state = random.getstate()
    from rich.console import Console  # draws from `random` when it is loaded, which is nobody's business
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    random.setstate(state)
    console = Console(stderr=True, force_terminal=show)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), left_column()]
    if speed:
        columns.insert(3, TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        work = bar.add_task(what, total=total, rate="")
        begun, done = time.monotonic(), 0.0

        def advance(steps: float) -> None:
            nonlocal done
            done += steps
            rate = done / max(time.monotonic() - begun, 1e-9)
            bar.update(work, advance=steps, rate=f"{rate:,.0f} a second")

        yield advance


def left_column() -> Any:
    """The time left, as a plan says times."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Left(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            told = time_left(task.elapsed or 0.0, task.completed, task.total or 0.0)
            return Text(told, style="progress.remaining")

    return Left()


def time_left(elapsed: float, done: float, total: float) -> str:
    """How long work would still take that has come so far, in words; nothing where nobody can tell.

    Args:
        elapsed: Seconds since it began.
        done: Steps that are done.
        total: All steps.
    """
    return f"about {in_seconds(elapsed * max(0.0, total - done) / done)} left" if done else ""


def in_seconds(value: float) -> str:
    """A time as people say it."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
