"""Runners hand out runs to workers, store cycles as they arrive, and replace workers that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

from jostle.engines import EngineError, Ray
from jostle.engines.ray_shards import connect, start_workers
from jostle.experiments.setup import ExperimentSetup
from jostle.experiments.store import Cycle, RunFile
from jostle.experiments.workers import Event, Job, RunIntegrity, Worker, WorkerConfig, failure
from jostle.utils.user_files import kept_sources

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


SILENT_SECONDS = 86_400.0  # without a cycle of any run, after which a cluster is given up


class RunWorker:
    """Worker on a node, with data that it loads once."""

    def __init__(self, config: WorkerConfig) -> None:
        self.worker = Worker(config)

    def ready(self) -> str:
        """Show that the worker has started."""
        return "ready"

    def run(self, job: Job, done: tuple[Cycle, ...]) -> Iterator[Event]:
        """Yield the events of a run after the cycles that are done."""
        with kept_sources(self.worker.config.sources):
            yield from self.worker.run(job, done)


class RayRunner(Runner):
    """Execute runs with the workers of a cluster."""

    max_deaths = 3

    def __init__(
        self, setup: ExperimentSetup, config: WorkerConfig, folder: Path, ray: Any, kind: Any, patience: float
    ) -> None:
        super().__init__(setup, config, folder)
        self.ray, self.kind, self.patience = ray, kind, patience
        self.sent = ray.put(config)
        self.started: list[Any] = []
        self.streams: dict[Any, Any] = {}  # worker -> its events

    def start_workers(self, count: int) -> list[Any]:
        """Start workers; one that dies while it starts is left out as long as others work."""
        if self.active:  # they will be free again, and the cluster may have no place for more
            return []
        return start_workers(
            self.ray, self._start_worker, lambda worker: worker.ready.remote(), count, self.patience
        )

    def _start_worker(self) -> Any:
        self.started.append(self.kind.remote(self.sent))
        return self.started[-1]

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


def run_on_ray(
    engine: Ray, setup: ExperimentSetup, config: WorkerConfig, folder: Path, jobs: Sequence[Job]
) -> Generator[Event]:
    """Execute all runs on a cluster, and yield what happens."""
    with connect(engine.address, engine.workers) as ray:
        gpus = engine.gpus_per_worker(ray) if config.device.startswith("cuda") else 0
        kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(RunWorker)
        runner = RayRunner(setup, config, folder, ray, kind, engine.patience)
        yield from runner.run(jobs, engine.worker_count(ray, gpus))
