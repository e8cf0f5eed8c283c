"""Progress bars for long work: shown on a terminal, silent everywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def progress_bar(what: str, total: int, show: bool | None = None) -> Iterator[Advance]:
    """Yield `advance(steps)`; show=None shows the bar when standard error is a terminal."""
    console = Console(stderr=True, force_terminal=show)
    if not (console.is_terminal if show is None else show):
        yield lambda steps: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        work = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(work, steps)
