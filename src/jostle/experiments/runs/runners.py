"""Runners hand out runs to workers, store cycles as they arrive, and replace workers that die.

A worker computes runs one after the other with one thread, so that results do not depend on who computes them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from jostle.experiments.results.store import Cycle, RunFile
from jostle.experiments.runs.checks import DataIntegrity, RunIntegrity, explain_error
from jostle.experiments.runs.loop import cycles
from jostle.experiments.runs.protocol import Protocol
from jostle.experiments.runs.setup import ExperimentSetup, build_strategy
from jostle.utils.user_files import Sources, kept_sources


class Job(NamedTuple):
    """One run: a strategy's label and a seed."""

    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.label} seed {self.seed}"


class Event(NamedTuple):
    """One step of a run: it started, finished a cycle, is done, or failed with a reason."""

    kind: str  # started, cycle, done, failed
    job: Job
    cycle: Cycle | None = None
    reason: str = ""
    trace: str = ""


@dataclass(frozen=True)
class WorkerConfig:
    """Everything that a worker needs to compute any of the runs."""

    protocol: Protocol
    root: str | Path | None  # folder with local copies of data sets
    device: str
    data: Mapping[str, str]  # checksums in the manifest
    sources: Sources  # the user's own files as the manifest records them


class Worker:
    """Compute runs, one after the other, with data that is loaded once.

    Args:
        config: What to run.
        setup: Data that is loaded already; None: the first run loads it.
    """

    def __init__(self, config: WorkerConfig, setup: ExperimentSetup | None = None) -> None:
        self.config, self.setup = config, setup
        self.integrity: DataIntegrity | None = None

    def run(self, job: Job, done: Sequence[Cycle]) -> Generator[Event]:
        """Yield the cycles of a run after those that are done; a failure is an event, not an exception."""
        try:
            with one_thread():
                for cycle in self._cycles(job, done):
                    yield Event("cycle", job, cycle)
        except Exception as error:
            yield failure(job, error)

    def _cycles(self, job: Job, done: Sequence[Cycle]) -> Iterator[Cycle]:
        """Yield cycles; none that came from changed files is among them."""
        config = self.config
        self.setup = self.setup or ExperimentSetup.load(config.protocol, config.root, config.device)
        self.integrity = self.integrity or DataIntegrity(self.setup.data, config.data)
        self.integrity.verify()
        strategy = build_strategy(config.protocol.strategies[job.label])
        for cycle in cycles(self.setup, strategy, job.seed, done):
            if self.integrity.reads_files:
                self.integrity.verify()
            yield cycle


def failure(job: Job, error: Exception) -> Event:
    """Event of a run that failed with an error."""
    return Event("failed", job, reason=explain_error(error), trace="".join(traceback.format_exception(error)))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with a single thread for a while: sums in a different order are different numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


STOP_SECONDS = 5.0  # a worker process has to end by itself


class WorkerDiedError(RuntimeError):
    """A worker ended in the middle of a run."""


@dataclass
class ActiveRun:
    """A run that a worker computes, with the lock on its file."""

    job: Job
    file: RunFile
    lock: ExitStack
    last: Cycle | None
    failed: bool = False


class Runner(ABC):
    """Execute runs with several workers; only this process writes run files.

    Args:
        setup: Data and protocol, to check run files against.
        config: Everything that a worker needs.
        folder: Where run files are.
    """

    max_deaths = 1  # workers that may die over one run before the run counts as failed

    def __init__(self, setup: ExperimentSetup, config: WorkerConfig, folder: Path) -> None:
        self.integrity, self.config, self.folder = RunIntegrity(setup), config, folder
        self.waiting: deque[Job] = deque()
        self.idle: deque[Any] = deque()
        self.active: dict[Any, ActiveRun] = {}
        self.deaths: Counter[Job] = Counter()

    @abstractmethod
    def start_workers(self, count: int) -> list[Any]:
        """Start so many workers, and return those that are ready."""

    @abstractmethod
    def send(self, worker: Any, job: Job, done: Sequence[Cycle]) -> None:
        """Let an idle worker compute a run from where its file ends."""

    @abstractmethod
    def wait(self) -> list[Any]:
        """Wait until a busy worker has something to say, and return those that have."""

    @abstractmethod
    def receive(self, worker: Any) -> Event | None:
        """Next event of a worker, None at the end of its run; WorkerDiedError where it is gone."""

    @abstractmethod
    def stop(self) -> None:
        """End all workers."""

    def run(self, jobs: Sequence[Job], workers: int) -> Generator[Event]:
        """Execute all runs, and yield what happens; a run that fails does not stop the rest."""
        self.waiting.extend(jobs)
        try:
            self.idle.extend(self.start_workers(min(workers, len(jobs))))
            while self.waiting or self.active:
                while self.waiting and self.idle:
                    yield from self._begin(self.waiting.popleft())
                for worker in self.wait() if self.active else ():
                    yield from self._handle(worker)
        finally:
            for active in self.active.values():
                active.lock.close()
            self.stop()

    def _begin(self, job: Job) -> Iterator[Event]:
        file, lock = RunFile.of(self.folder, *job), ExitStack()
        try:
            lock.enter_context(file.locked())
            done = self.integrity.read(file)
        except Exception as error:
            lock.close()
            yield failure(job, error)
            return
        last = done[-1] if done else None
        worker = self.idle.popleft()
        self.active[worker] = ActiveRun(job, file, lock, last)
        yield Event("started", job, last)
        self.send(worker, job, done)

    def _handle(self, worker: Any) -> Iterator[Event]:
        active = self.active[worker]
        try:
            event = self.receive(worker)
        except WorkerDiedError as death:
            yield from self._handle_death(worker, str(death))
            return
        if event is None:
            yield from self._finish(worker)
        elif not active.failed:
            yield self._store(active, event)

    def _store(self, active: ActiveRun, event: Event) -> Event:
        """Append a cycle to its file; where that fails, the run fails and its later cycles are ignored."""
        try:
            if event.cycle is not None:
                active.file.append(event.cycle)
                active.last = event.cycle
        except Exception as error:
            event = failure(active.job, error)
        active.failed = event.kind == "failed"
        return event

    def _finish(self, worker: Any) -> Iterator[Event]:
        active = self.active.pop(worker)
        active.lock.close()
        self.idle.append(worker)
        if not active.failed:
            yield Event("done", active.job, active.last)

    def _handle_death(self, worker: Any, reason: str) -> Iterator[Event]:
        """Let a different worker compute a dead one's run, unless too many died over it."""
        active = self.active.pop(worker)
        active.lock.close()
        self.deaths[active.job] += 1
        if self.deaths[active.job] < self.max_deaths:
            self.waiting.appendleft(active.job)
        elif not active.failed:
            yield Event("failed", active.job, reason=reason)
        if self.waiting and not self.idle:
            self.idle.extend(self.start_workers(1))


class InlineRunner(Runner):
    """Execute runs one by one in this process."""

    def __init__(self, setup: ExperimentSetup, config: WorkerConfig, folder: Path) -> None:
        super().__init__(setup, config, folder)
        self.worker = Worker(config, setup)
        self.events: Generator[Event] | None = None

    def start_workers(self, count: int) -> list[Worker]:
        """Return the one worker."""
        return [self.worker]

    def send(self, worker: Worker, job: Job, done: Sequence[Cycle]) -> None:
        """Begin a run; each event is computed when it is received."""
        self.events = worker.run(job, done)

    def wait(self) -> list[Worker]:
        """Return the one worker."""
        return [self.worker]

    def receive(self, worker: Worker) -> Event | None:
        """Compute the next event."""
        if self.events is None or self.active[worker].failed:
            return None
        return next(self.events, None)

    def stop(self) -> None:
        """Leave a run that was interrupted."""
        if self.events is not None:
            self.events.close()


class ProcessRunner(Runner):
    """Execute runs with several processes of this machine."""

    def __init__(self, setup: ExperimentSetup, config: WorkerConfig, folder: Path) -> None:
        super().__init__(setup, config, folder)
        self.context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads
        self.processes: dict[Connection, BaseProcess] = {}

    def start_workers(self, count: int) -> list[Connection]:
        """Spawn processes; a worker is known by the connection to it."""
        return [self._spawn() for _ in range(count)]

    def _spawn(self) -> Connection:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=serve, args=(theirs, self.config), daemon=True)
        with ignore_interrupts():
            process.start()
        theirs.close()
        self.processes[ours] = process
        return ours

    def send(self, worker: Connection, job: Job, done: Sequence[Cycle]) -> None:
        """Send a run; a process that is gone shows when it is received from."""
        try:
            worker.send((job, tuple(done)))
        except OSError:
            return

    def wait(self) -> list[Connection]:
        """Wait for messages and for the end of processes."""
        return [cast(Connection, ready) for ready in wait(list(self.active))]  # on Windows, a different class

    def receive(self, worker: Connection) -> Event | None:
        """Receive the next event."""
        try:
            event: Event | None = worker.recv()
        except (EOFError, OSError):
            process = self.processes.pop(worker)
            process.join()
            raise WorkerDiedError(f"its process ended with {describe_exit(process.exitcode)}") from None
        return event

    def stop(self) -> None:
        """Terminate all processes, and kill those that do not listen."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from their first moment on: the parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers, and it alone receives signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None is a handler that is not Python's


def describe_exit(code: int | None) -> str:
    """Exit code of a process, or the signal that ended it."""
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def serve(connection: Connection, config: WorkerConfig) -> None:
    """Compute runs in a worker process until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()
    worker = Worker(config)
    with kept_sources(config.sources):
        while True:
            try:
                job, done = connection.recv()
            except EOFError:
                return
            for event in worker.run(job, done):
                connection.send(event)
            connection.send(None)


def exit_with_parent() -> None:
    """Wait for the parent's end, however it comes, and end too."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
