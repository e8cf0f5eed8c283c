"""Connect to a Ray cluster or start one on this machine, and wait for its results with a time limit."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

CONNECT_SECONDS = 10.0  # until a cluster's address must answer
STORE_BYTES = 200 * 2**20  # shared memory on this machine: for models and functions, never for rows
MAX_DEATHS = 3  # of workers over one piece of work, or of all workers while starting


class EngineError(ValueError):
    """A cluster could not do its part; the message says why and what to do."""


def import_ray() -> Any:
    """Return the package Ray, or raise an error that says what to install."""
    try:
        import ray
        import ray.exceptions
    except ImportError as reason:
        raise ImportError("engine 'ray' needs Ray: pip install 'jostle[ray]'") from reason
    return ray


@contextmanager
def connect(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield Ray, connected to a cluster: one at an address, one that is connected already, or one of this machine.

    A cluster or connection that was made here ends here; one that existed before stays.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address not in ("auto", "local"):
        check_address(address)
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": True,
    }
    own = {
        "num_cpus": workers,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "_system_config": {"worker_niceness": 0},  # they do the work of this process
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
        raise original_error(error) from None


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


def original_error(error: Any) -> Exception:
    """Return the error that was raised inside a worker."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else EngineError(str(error).strip().splitlines()[-1])


def death_reason(error: Exception) -> str:
    """Return what Ray says of a worker's death, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    memory = next((line for line in lines if "memory" in line.lower()), None)
    return memory or (lines[0] if lines else type(error).__name__)
