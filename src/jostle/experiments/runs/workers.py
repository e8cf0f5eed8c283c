"""A worker computes runs one after the other, with one thread, so that results do not depend on who computes them."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from jostle.experiments.results.store import Cycle
from jostle.experiments.runs.checks import DataIntegrity, explain_error
from jostle.experiments.runs.loop import cycles
from jostle.experiments.runs.protocol import Protocol
from jostle.experiments.runs.setup import ExperimentSetup, build_strategy
from jostle.utils.user_files import Sources


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
