"""Runners hand out runs to workers, store cycles as they arrive, and replace workers that die.

A worker computes runs one after the other with one thread, so that results do not depend on who computes them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import Tensor

from jostle.engines import EngineError, Ray
from jostle.engines.ray_shards import connect, start_workers
from jostle.experiments.loop import cycles
from jostle.experiments.setup import (
    ExperimentSetup,
    WorkerConfig,
    build_strategy,
    check_unchanged,
    explain_error,
    one_thread,
)
from jostle.experiments.store import Cycle, RunFile
from jostle.utils.user_files import kept_sources


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


class RunWorker:
    """Compute runs, one after the other, with data that is loaded once.

    Args:
        config: What to run.
        setup: Data that is loaded already; None: the first run loads it.
    """

    def __init__(self, config: WorkerConfig, setup: ExperimentSetup | None = None) -> None:
        self.config, self.setup = config, setup

    def ready(self) -> str:
        """Show that the worker has started, on a node of a cluster."""
        return "ready"

    def run(self, job: Job, done: Sequence[Cycle]) -> Generator[Event]:
        """Yield the cycles of a run after those that are done; a failure is an event, not an exception."""
        try:
            with kept_sources(self.config.sources), one_thread():
                for cycle in self._cycles(job, done):
                    yield Event("cycle", job, cycle)
        except Exception as error:
            yield failure(job, error)

    def _cycles(self, job: Job, done: Sequence[Cycle]) -> Iterator[Cycle]:
        """Yield cycles; none that came from changed files is among them."""
        config = self.config
        self.setup = self.setup or ExperimentSetup.load(config.protocol, config.root, config.device)
        data = self.setup.data
        check_unchanged(data, config.data)
        read = (part for split in (data.train, data.test) for part in (split.inputs, split.targets))
        from_files = not all(isinstance(part, Tensor) for part in read)  # an edit reaches a run under way
        strategy = build_strategy(config.protocol.strategies[job.label])
        for cycle in cycles(self.setup, strategy, job.seed, done):
            if from_files:
                check_unchanged(data, config.data)
            yield cycle


def failure(job: Job, error: Exception) -> Event:
    """Event of a run that failed with an error."""
    return Event("failed", job, reason=explain_error(error), trace="".join(traceback.format_exception(error)))


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


ReadRun = Callable[[RunFile], list[Cycle]]


class Runner:
    """Execute runs one by one in this process; subclasses have workers elsewhere. Only this process writes run files.

    Args:
        setup: Data and protocol.
        config: Everything that a worker needs.
        folder: Where run files are.
        read: Reads a run file and checks that the protocol can have made it.
    """

    max_deaths = 1  # workers that may die over one run before the run counts as failed

    def __init__(self, setup: ExperimentSetup, config: WorkerConfig, folder: Path, read: ReadRun) -> None:
        self.setup, self.config, self.folder, self.read = setup, config, folder, read
        self.waiting: deque[Job] = deque()
        self.idle: deque[Any] = deque()
        self.active: dict[Any, ActiveRun] = {}
        self.deaths: Counter[Job] = Counter()
        self.streams: dict[Any, Any] = {}  # worker -> the events of its run, unless they come by messages

    def start_workers(self, count: int) -> list[Any]:
        """Start so many workers, and return those that are ready."""
        return [RunWorker(self.config, self.setup)]

    def send(self, worker: Any, job: Job, done: Sequence[Cycle]) -> None:
        """Let an idle worker compute a run from where its file ends."""
        self.streams[worker] = worker.run(job, done)

    def wait(self) -> list[Any]:
        """Wait until a busy worker has something to say, and return those that have."""
        return list(self.active)

    def receive(self, worker: Any) -> Event | None:
        """Next event of a worker, None at the end of its run; WorkerDiedError where it is gone."""
        return None if self.active[worker].failed else next(self.streams[worker], None)

    def stop(self) -> None:
        """End all workers."""
        for events in self.streams.values():
            events.close()

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
            done = self.read(file)
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
            del self.active[worker]
            active.lock.close()
            self.idle.append(worker)
            if not active.failed:
                yield Event("done", active.job, active.last)
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


class ProcessRunner(Runner):
    """Execute runs with several processes of this machine."""

    def __init__(self, setup: ExperimentSetup, config: WorkerConfig, folder: Path, read: ReadRun) -> None:
        super().__init__(setup, config, folder, read)
        self.context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads
        self.processes: dict[Connection, BaseProcess] = {}

    def start_workers(self, count: int) -> list[Connection]:
        """Spawn processes; a worker is known by the connection to it."""
        started = []
        for _ in range(count):
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=serve, args=(theirs, self.config), daemon=True)
            with ignore_interrupts():
                process.start()
            theirs.close()
            self.processes[ours] = process
            started.append(ours)
        return started

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
    worker = RunWorker(config)
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


SILENT_SECONDS = 86_400.0  # without a cycle of any run, after which a cluster is given up


class RayRunner(Runner):
    """Execute runs with the workers of a cluster."""

    max_deaths = 3
    ray: Any
    patience: float  # seconds to wait for an answer of the cluster
    started: tuple[Any, ...] = ()

    def run_on(self, engine: Ray, jobs: Sequence[Job]) -> Generator[Event]:
        """Execute all runs on a cluster, and yield what happens."""
        self.patience = engine.patience
        with connect(engine.address, engine.workers) as self.ray:
            gpus = engine.gpus_per_worker(self.ray) if self.config.device.startswith("cuda") else 0
            self.kind = self.ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(RunWorker)
            self.sent = self.ray.put(self.config)
            yield from self.run(jobs, engine.worker_count(self.ray, gpus))

    def start_workers(self, count: int) -> list[Any]:
        """Start workers; one that dies while it starts is left out as long as others work."""
        if self.active:  # they will be free again, and the cluster may have no place for more
            return []

        def start() -> Any:
            self.started = (*self.started, self.kind.remote(self.sent))
            return self.started[-1]

        return start_workers(self.ray, start, lambda worker: worker.ready.remote(), count, self.patience)

    def send(self, worker: Any, job: Job, done: Sequence[Cycle]) -> None:
        """Begin a run on a worker."""
        self.streams[worker] = worker.run.options(num_returns="streaming").remote(job, tuple(done))

    def wait(self) -> list[Any]:
        """Wait for the next event of any run."""
        streams = {self.streams[worker]: worker for worker in self.active}
        ready, _ = self.ray.wait(list(streams), num_returns=1, timeout=SILENT_SECONDS, fetch_local=True)
        if not ready:
            raise EngineError(
                f"waited {SILENT_SECONDS:g} seconds for a cycle of any of {len(streams)} runs: see `ray status`"
            )
        return [streams[stream] for stream in ready]

    def receive(self, worker: Any) -> Event | None:
        """Fetch the next event of a worker's run."""
        try:
            event: Event = self.ray.get(next(self.streams[worker]), timeout=self.patience)
        except StopIteration:
            return None
        except self.ray.exceptions.RayTaskError as error:
            return failure(self.active[worker].job, error)
        except self.ray.exceptions.RayError as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise WorkerDiedError(f"{self.max_deaths} workers died over it: {first}") from None
        return event

    def stop(self) -> None:
        """Kill the workers; the cluster itself stays."""
        for worker in self.started:
            self.ray.kill(worker)
