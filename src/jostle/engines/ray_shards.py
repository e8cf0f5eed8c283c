"""Shards on the workers of a Ray cluster. Work of a worker that dies is done again by the others; picks stay the same.

A worker's rows follow from its portions, and a shard's state from its rows and the changes that all shards got. So the
others score a dead worker's portions again and repeat those changes.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jostle.engines.worker import Candidates, EngineError, Span
from jostle.rows.geometry import Rows
from jostle.selectors.shards import Shard, Shards

Advance = Callable[[int], None]
T = TypeVar("T")


@dataclass
class ShardHandle:
    """A shard of a worker."""

    worker: Any
    number: int
    spans: list[Span]


@dataclass
class RayShards(Shards):
    """All shards of a pool on a cluster."""

    ray: Any
    workers: list[Any]
    candidates: Candidates
    patience: float
    start_worker: Callable[[], Any]
    """Starts a worker in place of one that died."""
    history: list[Callable[[Shard], None]] = field(default_factory=list)
    handles: list[ShardHandle] = field(default_factory=list)
    deaths: dict[Span, int] = field(default_factory=dict)
    pending: list[Any] = field(default_factory=list)
    """Changes on their way; a worker makes them before the next function that it runs."""
    built: int = 0
    portions_scored: int = 0
    """Portions that were scored, not read from files."""

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def count(self) -> int:
        """Number of shards."""
        return len(self.handles)

    def centers(self) -> Any:
        """Return rows of the labeled set, computed by one worker for all."""
        first = self.candidates.smallest
        while True:
            worker = self.workers[0]
            ref = worker.centers.remote(first)
            try:
                return fetch(self.ray, ref, self.patience, "rows of the labeled set")
            except self.ray.exceptions.RayError as error:
                self.replace_worker(worker, [first.span], error)

    def score(self, spans: Iterable[Span], advance: Advance) -> None:
        """Have all portions scored by idle workers, and make a shard of those of each worker."""
        todo, scored = deque(spans), dict[Any, list[Span]]()
        busy: dict[Any, tuple[Any, Span]] = {}
        idle = deque(self.workers)
        while todo or busy:
            while todo and idle:
                worker, span = idle.popleft(), todo.popleft()
                busy[worker.score.remote(self.candidates.portion(span))] = worker, span
            task = f"{len(busy)} portions to be scored"
            ref, (worker, span) = next(as_completed(self.ray, busy, self.patience, task))
            del busy[ref]
            try:
                self.portions_scored += bool(fetch(self.ray, ref, self.patience, task))
            except self.ray.exceptions.RayError as error:
                lost = [span, *scored.pop(worker, [])]
                idle.extend(self.replace_worker(worker, lost, error))
                todo.extendleft(lost)
                advance(-sum(stop - start for start, stop in lost[1:]))
                continue
            scored.setdefault(worker, []).append(span)
            idle.append(worker)
            advance(span.stop - span.start)
        self.build_shards(scored, advance)

    def build_shards(self, scored: dict[Any, list[Span]], advance: Advance) -> None:
        """Make a shard of the portions that each worker scored, and repeat all changes there."""
        history, lost = self.ray.put(self.history), list[Span]()
        refs = {}
        for worker, spans in scored.items():
            self.built += 1
            refs[worker.build_shard.remote(self.built, history)] = ShardHandle(worker, self.built, spans)
        for ref, handle in as_completed(self.ray, refs, self.patience, "shards to be built"):
            try:
                fetch(self.ray, ref, self.patience, "a shard to be built")
                self.handles.append(handle)
            except self.ray.exceptions.RayError as error:
                self.replace_worker(handle.worker, handle.spans, error)
                lost += handle.spans
        if lost:
            advance(-sum(stop - start for start, stop in lost))
            self.score(lost, advance)

    def replace_worker(self, worker: Any, spans: list[Span], error: Exception) -> list[Any]:
        """Drop a dead worker; start a new one if it was the last, and return it in a list.

        Raises:
            EngineError: Too many workers died over the first of the portions, at which this one was.
        """
        for span in spans[:1]:
            self.deaths[span] = self.deaths.get(span, 0) + 1
            if self.deaths[span] >= MAX_DEATHS:
                raise EngineError(
                    f"{MAX_DEATHS} workers died over the examples at places {span.start} to {span.stop - 1}: "
                    f"{death_reason(error)}"
                )
        self.workers[:] = [each for each in self.workers if each is not worker]
        if self.workers:
            return []
        self.workers.append(self.start_worker())
        return list(self.workers)

    def start(self, centers: Rows | None, unit: bool, seed: int, picked: Sequence[int] = ()) -> None:
        """Start a selection; earlier changes are not repeated from now on."""
        self.history = []
        super().start(centers, unit, seed, picked)

    def gather(self, function: Callable[[Shard], T]) -> list[T]:
        """Return what a function returns for each shard; lost shards are built again and run it then."""
        results, waiting = list[T](), list(self.handles)
        sent = self.ray.put(function)
        while waiting:
            before = {id(handle) for handle in self.handles}
            found, lost = self._run(function, sent, waiting)
            results += found
            if lost:
                self.score(lost, lambda steps: None)
            waiting = [handle for handle in self.handles if id(handle) not in before]
        return results

    def broadcast(self, function: Callable[[Shard], None]) -> None:
        """Run a function on each shard without waiting for it; its errors show at the next `gather`."""
        sent = self.ray.put(function)
        self.history.append(function)
        self.pending += [handle.worker.run.remote(handle.number, sent) for handle in self.handles]

    def _run(
        self, function: Callable[[Shard], T], sent: Any, handles: list[ShardHandle]
    ) -> tuple[list[T], list[Span]]:
        """Return results of some shards, and portions of lost ones; results of dead workers do not count."""
        refs = {handle.worker.run.remote(handle.number, sent): handle for handle in handles}
        results, dead = list[tuple[ShardHandle, T]](), list[Any]()
        task = f"shards to answer ({getattr(getattr(function, 'func', function), '__name__', 'a function')})"
        self.drain_errors(task)
        for ref, handle in as_completed(self.ray, refs, self.patience, task):
            try:
                results.append((handle, fetch(self.ray, ref, self.patience, task)))
            except self.ray.exceptions.RayError as error:
                if handle.worker not in dead:
                    dead.append(handle.worker)
                    self.replace_worker(handle.worker, handle.spans, error)
        lost = [span for handle in self.handles if handle.worker in dead for span in handle.spans]
        self.handles = [handle for handle in self.handles if handle.worker not in dead]
        return [result for handle, result in results if handle.worker not in dead], lost

    def drain_errors(self, task: str) -> None:
        """Raise errors of pending changes; the death of a worker shows at its next function instead."""
        pending, self.pending = self.pending, []
        for ref in pending:
            with suppress(self.ray.exceptions.RayError):
                fetch(self.ray, ref, self.patience, task)


CONNECT_SECONDS = 10.0  # until a cluster's address must answer
STORE_BYTES = 200 * 2**20  # shared memory on this machine: for models and functions, never for rows
MAX_DEATHS = 3  # of workers over one piece of work, or of all workers while starting


@contextmanager
def connect(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield Ray, connected to a cluster: one at an address, one that is connected already, or one of this machine.

    A cluster or connection that was made here ends here; one that existed before stays.
    """
    try:
        import ray
        import ray.exceptions
    except ImportError as reason:
        raise ImportError("engine 'ray' needs Ray: pip install 'jostle[ray]'") from reason
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address not in ("auto", "local"):
        check_address(address)
    own: dict[str, Any] = {
        "num_cpus": workers,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "_system_config": {"worker_niceness": 0},  # they do the work of this process
    }
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": True,
    }
    try:
        ray.init(address=address, **quiet, **(own if address == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as reason:
        first = str(reason).strip().splitlines()[0]
        raise EngineError(f"no Ray cluster answers ({address}): {first}") from reason
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Raise at once where nothing listens at an address; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise EngineError(f"a cluster's address must be host:port, ray://host:port or auto; got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as reason:
        raise EngineError(
            f"no Ray cluster answers at {address} ({reason}): is it running there (`ray status`)?"
        ) from reason


def as_completed(ray: Any, pending: Mapping[Any, T], limit: float, task: str) -> Iterator[tuple[Any, T]]:
    """Yield references as they complete, each with its value of `pending`; raise after `limit` seconds of silence."""
    left = dict(pending)
    while left:
        done, _ = ray.wait(list(left), num_returns=1, timeout=limit)
        if not done:
            raise EngineError(
                f"waited {limit:g} seconds for {task}, and nothing came from any of {len(left)} workers: "
                "look at the cluster (`ray status`), or allow more with patience="
            )
        for ref in done:
            yield ref, left.pop(ref)


def fetch(ray: Any, ref: Any, limit: float, task: str) -> Any:
    """Return the value of a reference, or raise the worker's own error, or an error after `limit` seconds."""
    try:
        return ray.get(ref, timeout=limit)
    except ray.exceptions.GetTimeoutError:
        raise EngineError(
            f"waited {limit:g} seconds for {task}: look at the cluster (`ray status`)"
        ) from None
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        own = cause if isinstance(cause, Exception) else EngineError(str(error).strip().splitlines()[-1])
        raise own from None


def start_workers(
    ray: Any, start: Callable[[], Any], sign: Callable[[Any], Any], count: int, patience: float
) -> list[Any]:
    """Start workers and return those that came up; if all died while starting, try again a few times.

    Args:
        ray: The package, connected.
        start: Starts a worker.
        sign: From a worker to the reference of its first sign of life.
        count: Number of workers.
        patience: Seconds without any sign of life until an error.

    Raises:
        EngineError: No worker came up.
    """
    task = f"{count} workers to start (1 CPU each): ask for fewer with workers="
    error: Exception | None = None
    for _ in range(MAX_DEATHS):
        workers = list[Any]()
        signs = {sign(worker): worker for worker in (start() for _ in range(count))}
        for ref, worker in as_completed(ray, signs, patience, task):
            try:
                fetch(ray, ref, patience, task)
                workers.append(worker)
            except ray.exceptions.RayError as death:
                error = death
        if workers:
            return workers
    assert error is not None
    raise EngineError(f"no worker could start: {death_reason(error)}") from error


def death_reason(error: Exception) -> str:
    """Return what Ray says of a worker's death, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return next((line for line in lines if "memory" in line.lower()), lines[0])
