"""A worker computes runs one after the other, with one thread, from data and run files that it has checked."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from jostle.datasets import Data
from jostle.experiments.loop import cycles, initial_set
from jostle.experiments.protocol import Protocol
from jostle.experiments.setup import ExperimentSetup, build_strategy
from jostle.experiments.store import CorruptRunError, Cycle, RunBusyError, RunFile
from jostle.utils.user_files import Sources, line_in_own_file


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


class DataIntegrity:
    """Refuses data that is not what was recorded."""

    def __init__(self, data: Data, recorded: Mapping[str, str]) -> None:
        self.data, self.recorded = data, recorded

    @property
    def reads_files(self) -> bool:
        """Whether examples are read from files as they are asked for, so that an edit reaches a run under way."""
        splits = (self.data.train, self.data.test)
        return not all(isinstance(part, Tensor) for split in splits for part in (split.inputs, split.targets))

    def verify(self) -> None:
        """Compare checksums, and name what differs."""
        found = replace(
            self.data
        ).checksums  # of a record that remembers none; unchanged files are not read again
        names = dict.fromkeys([*self.recorded, *found])
        changed = [name for name in names if self.recorded.get(name) != found.get(name)]
        if changed:
            raise ValueError(
                f"{self.data.name} is not what it was when the command began ({', '.join(changed)} changed): "
                "restore it and run the same command to resume, or start again in a different folder"
            )


class RunIntegrity:
    """Refuses cycles on disk that this protocol cannot have made with this seed."""

    def __init__(self, setup: ExperimentSetup) -> None:
        self.setup = setup
        self.initial = cache(lambda seed: initial_set(setup, seed).tolist())

    def read(self, file: RunFile) -> list[Cycle]:
        """The cycles of a run, as far as they are written, each as the protocol wants it."""
        done = file.read()
        for place, cycle in enumerate(done):
            if why := self._wrong(cycle, file.seed):
                raise CorruptRunError(file.path, place, why)
        return done

    def _wrong(self, cycle: Cycle, seed: int) -> str:
        pool, wanted = len(self.setup.data.train), self.setup.pick if cycle.cycle else self.setup.initial
        if len(cycle.picked) != wanted:
            return f"it labels {len(cycle.picked)} examples, where the protocol says {wanted}"
        if max(cycle.picked) >= pool:
            return f"it labels example {max(cycle.picked)} of {pool}"
        if cycle.cycle == 0 and cycle.picked != self.initial(seed):
            return f"its examples are not the initial set that seed {seed} draws"
        return ""


def explain_error(error: BaseException) -> str:
    """Message of an error on one line, with the line of the user's own file that it came from."""
    place = line_in_own_file(error)
    return f"{error_message(error)} ({place})" if place else error_message(error)


def error_message(error: BaseException) -> str:
    """Message of an error, with its type unless the message is jostle's own."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    if isinstance(error, ValueError | RunBusyError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"
