"""Reaching a Ray cluster, or starting one on this machine, and leaving nothing behind."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jostle.engines.waiting import EngineError

ANSWERS = 10.0  # seconds in which a cluster's address has to answer
STORE = 200 * 2**20  # bytes of shared memory on this machine: models and questions, never rows
NO_RAY = "engine 'ray' needs Ray: pip install 'jostle[ray]'"


def ray_package() -> Any:
    """Ray, or an error that says what to install."""
    try:
        import ray
        import ray.exceptions
    except ImportError as reason:
        raise ImportError(NO_RAY) from reason
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected: to a cluster's address, to what is connected already, or to a cluster of this machine's own.

    What was started or connected here ends here; a connection that was there before stays.
    """
    ray = ray_package()
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
        "object_store_memory": STORE,
        "include_dashboard": False,
        "_system_config": {"worker_niceness": 0},  # they do what this process would do itself
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
    """Refuse an address where nothing listens, at once: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise EngineError(f"a cluster's address is host:port, ray://host:port or auto; got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWERS).close()
    except OSError as reason:
        raise EngineError(
            f"no Ray cluster answers at {address} ({reason}): is it running there (`ray status`)?"
        ) from reason
