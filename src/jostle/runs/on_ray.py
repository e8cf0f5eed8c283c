"""Runs carried out by a Ray cluster: workers compute, and only this process writes down what comes of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from jostle.engines import EngineError, Ray
from jostle.engines.cluster import connected
from jostle.engines.waiting import got, ready
from jostle.plumbing.user_files import kept_sources
from jostle.results.cycles import Cycle
from jostle.results.store import RunFile
from jostle.runs.bench import Bench
from jostle.runs.guard import RunGuard
from jostle.runs.workers import Event, Job, Order, Tell, Worker, failure, one_thread

TRIES = 3  # workers that may die over one run
DAY = 86_400.0  # seconds without any cycle of any run after which a cluster is given up


class RunWorker:
    """Carries out runs on a node, one after the other, with data that it loads once."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.worker: Worker | None = None

    def ready(self) -> str:
        """A sign of life."""
        return "ready"

    def perform(self, job: Job, done: tuple[Cycle, ...]) -> Iterator[Event]:
        """What happens in a run after the cycles that are done; a failure is told, not raised."""
        with kept_sources(self.order.sources), one_thread():
            try:
                self.worker = self.worker or Worker.of(self.order)
                self.worker.guard.verify()
                for cycle in self.worker.cycles(job, done):
                    yield Event("cycle", job, cycle)
            except Exception as error:
                yield failure(job, error)


@dataclass
class Under:
    """A run that is under way: who does it, and the lock on its file."""

    job: Job
    worker: Any
    file: RunFile
    stack: ExitStack
    last: Cycle | None
    failed: bool = False


@dataclass
class Office:
    """Hands out runs and writes down their cycles as they come."""

    ray: Any
    bench: Bench
    tell: Tell
    patience: float
    start: Any
    """Starts a worker."""
    under: dict[Any, Under] = field(default_factory=dict)
    """What is under way, by the stream of its events."""
    todo: deque[Job] = field(default_factory=deque)
    idle: deque[Any] = field(default_factory=deque)
    deaths: dict[Job, int] = field(default_factory=dict)

    def work(self, jobs: Sequence[Job], workers: int) -> None:
        """All runs, as many at the same time as there are workers."""
        self.todo.extend(jobs)
        new = {
            worker.ready.remote(): worker for worker in (self.start() for _ in range(min(workers, len(jobs))))
        }
        for ref, worker in ready(self.ray, new, self.patience, f"{len(new)} workers to start (1 CPU each)"):
            got(self.ray, ref, self.patience, "a worker to start")
            self.idle.append(worker)
        try:
            while self.todo or self.under:
                while self.todo and self.idle:
                    self.begin(self.todo.popleft())
                if self.under:
                    self.hear()
        finally:
            for under in self.under.values():
                under.stack.close()

    def begin(self, job: Job) -> None:
        """Have a run gone on with from where its file ends."""
        file, stack = RunFile.of(self.order.folder, *job), ExitStack()
        try:
            stack.enter_context(file.locked())
            done = RunGuard(self.bench).read(file)
        except Exception as error:
            stack.close()
            self.tell(failure(job, error))
            return
        self.tell(Event("began", job, done[-1] if done else None))
        worker = self.idle.popleft()
        stream = worker.perform.options(num_returns="streaming").remote(job, tuple(done))
        self.under[stream] = Under(job, worker, file, stack, done[-1] if done else None)

    @property
    def order(self) -> Order:
        """What every worker was given."""
        order: Order = self.start.order
        return order

    def hear(self) -> None:
        """Write down what comes next, of whichever run."""
        news, _ = self.ray.wait(list(self.under), num_returns=1, timeout=DAY, fetch_local=True)
        if not news:
            raise EngineError(
                f"waited {DAY:g} seconds for a cycle of any of {len(self.under)} runs: see `ray status`"
            )
        stream = news[0]
        under = self.under[stream]
        try:
            event: Event = self.ray.get(next(stream), timeout=self.patience)
        except StopIteration:
            self.end(stream)
        except self.ray.exceptions.RayTaskError as error:
            under.failed = True
            self.tell(failure(under.job, error))
            self.end(stream)
        except self.ray.exceptions.RayError as error:
            self.bury(stream, error)
        else:
            self.write(under, event)

    def write(self, under: Under, event: Event) -> None:
        """Keep a cycle, and tell of it."""
        if event.cycle is not None:
            under.file.append(event.cycle)
            under.last = event.cycle
        under.failed |= event.kind == "failed"
        self.tell(event)

    def end(self, stream: Any) -> None:
        """A run is over; its worker is free."""
        under = self.under.pop(stream)
        under.stack.close()
        self.idle.append(under.worker)
        if not under.failed:
            self.tell(Event("done", under.job, under.last))

    def bury(self, stream: Any, error: Exception) -> None:
        """Another worker goes on with a dead one's run, unless too many died over it."""
        under = self.under.pop(stream)
        under.stack.close()
        deaths = self.deaths[under.job] = self.deaths.get(under.job, 0) + 1
        if deaths < TRIES:
            self.todo.appendleft(under.job)
        else:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            self.tell(Event("failed", under.job, reason=f"{TRIES} workers died over it: {first}"))
        if self.todo and not self.idle and not self.under:  # nobody is left
            worker = self.start()
            got(
                self.ray,
                worker.ready.remote(),
                self.patience,
                "room for a worker in place of those that died",
            )
            self.idle.append(worker)


@dataclass
class Start:
    """Starts workers, all with the same order."""

    kind: Any
    order: Order
    sent: Any
    started: list[Any] = field(default_factory=list)

    def __call__(self) -> Any:
        """A new worker."""
        self.started.append(self.kind.remote(self.sent))
        return self.started[-1]


def carry_out_on(engine: Ray, bench: Bench, order: Order, jobs: Sequence[Job], tell: Tell) -> None:
    """Do all runs on a cluster, telling what happens; a run that fails does not stop the others."""
    with connected(engine.address, engine.workers) as ray:
        gpus = engine.gpus_of_a_worker(ray) if order.device.startswith("cuda") else 0
        kind = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(RunWorker)
        start = Start(kind, order, ray.put(order))
        office = Office(ray, bench, tell, engine.patience, start)
        try:
            office.work(jobs, engine.count(ray, gpus))
        finally:
            for worker in start.started:
                ray.kill(worker)
