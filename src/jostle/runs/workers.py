"""Runs carried out one by one or by several processes, each with one thread, so that results are the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from jostle.plumbing.user_files import Sources, kept_sources, line_in_own_file
from jostle.results.cycles import Cycle
from jostle.results.store import RunBusyError, RunFile
from jostle.runs.bench import Bench, strategy_of
from jostle.runs.guard import DataGuard, RunGuard
from jostle.runs.loop import cycles
from jostle.runs.protocol import Protocol


class Job(NamedTuple):
    """One run: a strategy's label and a seed."""

    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.label} seed {self.seed}"


@dataclass(frozen=True)
class Order:
    """What a worker needs to carry out any of the runs."""

    protocol: Protocol
    folder: Path
    root: str | Path | None  # where local copies of data are
    device: str
    data: Mapping[str, str]  # checksums that the manifest has
    sources: Sources  # the user's own files, as the manifest has them


class Event(NamedTuple):
    """What happened in a run: it began, finished a cycle, ended, or failed with a reason."""

    kind: str  # began, cycle, done, failed
    job: Job
    cycle: Cycle | None = None
    reason: str = ""
    trace: str = ""


Tell = Callable[[Event], None]
PATIENCE = 5.0  # seconds that a worker has to end by itself


def carry_out(bench: Bench, order: Order, jobs: Sequence[Job], processes: int, tell: Tell) -> None:
    """Do all runs, telling what happens; a run that fails does not stop the others."""
    if processes > 1 and len(jobs) > 1:
        Crew(order, tell).work(list(jobs), min(processes, len(jobs)))
        return
    worker = Worker(bench, DataGuard(bench.data, order.data), order.folder)
    with one_thread():
        for job in jobs:
            worker.attempt(job, tell)


@dataclass(frozen=True)
class Worker:
    """Carries out one run after the other, with the same data."""

    bench: Bench
    guard: DataGuard
    folder: Path

    @classmethod
    def of(cls, order: Order) -> Worker:
        """A worker that loads the data itself."""
        bench = Bench.of(order.protocol, order.root, order.device)
        return cls(bench, DataGuard(bench.data, order.data), order.folder)

    def attempt(self, job: Job, tell: Tell) -> None:
        """One run, its failure told and not raised."""
        try:
            self.guard.verify()
            self.perform(job, tell)
        except Exception as error:
            tell(failure(job, error))

    def perform(self, job: Job, tell: Tell) -> None:
        """One run from where its file ends, a line at a time."""
        file = RunFile.of(self.folder, *job)
        with file.locked():
            done = RunGuard(self.bench).read(file)
            tell(Event("began", job, done[-1] if done else None))
            for cycle in self.cycles(job, tuple(done)):
                done.append(cycle)
                file.append(cycle)
                tell(Event("cycle", job, cycle))
        tell(Event("done", job, done[-1]))

    def cycles(self, job: Job, done: tuple[Cycle, ...]) -> Iterator[Cycle]:
        """The cycles of a run after those that are `done`; nothing that came from changed files is among them."""
        strategy = strategy_of(self.bench.protocol.strategies[job.label])
        for cycle in cycles(self.bench, strategy, job.seed, done):
            if self.guard.reads_files:
                self.guard.verify()
            yield cycle


def failure(job: Job, error: Exception) -> Event:
    """What is told of a run that failed."""
    return Event("failed", job, reason=explained(error), trace="".join(traceback.format_exception(error)))


def explained(error: BaseException) -> str:
    """An error in a line: its words, and the line of the user's own file that it came from."""
    place = line_in_own_file(error)
    return f"{error_words(error)} ({place})" if place else error_words(error)


def error_words(error: BaseException) -> str:
    """The words of an error, with its kind where they are not ours."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    if isinstance(error, ValueError | RunBusyError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with a single thread for a while: sums in another order are other numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


class Crew:
    """Worker processes that are given one run after the other."""

    def __init__(self, order: Order, tell: Tell) -> None:
        self.order, self.tell = order, tell
        self.context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads
        self.workers: dict[Connection, BaseProcess] = {}
        self.busy: dict[Connection, Job] = {}

    def work(self, jobs: list[Job], processes: int) -> None:
        """Hand out all runs; a worker that dies is replaced, its run counts as failed."""
        todo = jobs[::-1]
        try:
            for _ in range(processes):
                self.hire(todo)
            while self.busy:
                for ready in wait(list(self.busy)):
                    self.hear(cast(Connection, ready), todo)  # on Windows, one of another class
        finally:
            self.dismiss()

    def hire(self, todo: list[Job]) -> None:
        """Start a worker on the next run."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=serve, args=(theirs, self.order), daemon=True)
        with deaf_to_interrupts():
            process.start()
        theirs.close()
        self.workers[ours] = process
        self.hand(ours, todo)

    def dismiss(self) -> None:
        """End all workers, those first that listen; what they were writing is whole or not there."""
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            worker.join(PATIENCE)
            if worker.is_alive():
                worker.kill()
                worker.join()

    def hand(self, worker: Connection, todo: list[Job]) -> None:
        """Give the next run to a worker, or let it go."""
        self.busy.pop(worker, None)
        if todo:
            self.busy[worker] = todo.pop()
            worker.send(self.busy[worker])

    def hear(self, worker: Connection, todo: list[Job]) -> None:
        """Pass on what a worker says; silence for ever is a death."""
        try:
            event: Event = worker.recv()
        except (EOFError, ConnectionError):
            self.bury(worker, todo)
            return
        self.tell(event)
        if event.kind in ("done", "failed"):
            self.hand(worker, todo)

    def bury(self, worker: Connection, todo: list[Job]) -> None:
        """Tell of a dead worker's run, and replace it while there is work."""
        process, job = self.workers.pop(worker), self.busy.pop(worker)
        process.join()
        self.tell(Event("failed", job, reason=f"its process ended with {ending(process.exitcode)}"))
        if todo:
            self.hire(todo)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Start processes that never hear Ctrl-C, from their first moment on: it is the parent's to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say how signals are handled, and it alone gets them
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None is a handler that is not Python's


def ending(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def serve(connection: Connection, order: Order) -> None:
    """A worker process's life: load the data once, then one run after the other, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    worker: Worker | None = None
    with kept_sources(order.sources), one_thread():
        while True:
            try:
                job: Job = connection.recv()
            except EOFError:
                return
            try:
                worker = worker or Worker.of(order)
            except Exception as error:
                connection.send(failure(job, error))
                continue
            worker.attempt(job, connection.send)


def end_with_parent() -> None:
    """Wait for the parent's end, however it comes, and end too."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
