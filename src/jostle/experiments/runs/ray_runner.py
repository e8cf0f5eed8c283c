"""Runs on a Ray cluster: workers compute on its nodes, and this process stores their cycles."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from jostle.engines import EngineError, Ray
from jostle.engines.ray_shards import connect, start_workers
from jostle.experiments.results.store import Cycle
from jostle.experiments.runs.runners import Event, Job, Runner, Worker, WorkerConfig, WorkerDiedError, failure
from jostle.experiments.runs.setup import ExperimentSetup
from jostle.utils.user_files import kept_sources

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
