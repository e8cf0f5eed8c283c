"""Waits that end: every one has a limit and says what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class EngineError(ValueError):
    """What kept a cluster from doing its part, in words that say what to do."""


def ready(ray: Any, pending: Mapping[Any, T], limit: float, doing: str) -> Iterator[tuple[Any, T]]:
    """What is pending, each as it comes; an error if nothing comes for `limit` seconds."""
    left = dict(pending)
    while left:
        done, _ = ray.wait(list(left), num_returns=1, timeout=limit)
        if not done:
            raise EngineError(
                f"waited {limit:g} seconds for {doing}, and nothing came from any of {len(left)} workers: "
                "look at the cluster (`ray status`), or allow more with patience="
            )
        for ref in done:
            yield ref, left.pop(ref)


def got(ray: Any, ref: Any, limit: float, doing: str) -> Any:
    """The value of one reference, or the error behind it, or an error that says what was waited for."""
    try:
        return ray.get(ref, timeout=limit)
    except ray.exceptions.GetTimeoutError:
        raise EngineError(
            f"waited {limit:g} seconds for {doing}: look at the cluster (`ray status`)"
        ) from None
    except ray.exceptions.RayTaskError as error:
        raise cause_of(error) from None


def cause_of(error: Any) -> Exception:
    """What went wrong inside a worker: its own error, of its own kind."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else EngineError(str(error).strip().splitlines()[-1])
