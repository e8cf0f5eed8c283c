"""Connections of a labeling server: limits for clients that are slow, or too many.

uvicorn waits for ever for a request that does not end. Here a request must be complete, and a reply read, in time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0  # from the first byte of a request, or the beginning of a connection, to its last
REPLY_SECONDS = 600.0  # to compute a reply and to send it
MAX_CONNECTIONS = 600
MAX_PER_ADDRESS = 300  # a team behind one router has one address


class LimitedProtocol(H11Protocol):
    """HTTP connection that is closed when its client takes too long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting = False  # for a request, not for a reply

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse a connection beyond the limits, and wait for a request otherwise."""
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        others = [getattr(each, "client", None) or (None,) for each in self.connections]
        same = sum(other[0] == address for other in others)
        if len(self.connections) > MAX_CONNECTIONS or same > MAX_PER_ADDRESS:
            transport.abort()
            return
        self._expect(request=True)

    def data_received(self, data: bytes) -> None:
        """Take some bytes; begin to wait for the rest of a request, or for its reply."""
        super().data_received(data)
        cycle = self.cycle
        waiting = cycle is None or cycle.response_complete or cycle.more_body
        if waiting != self._waiting or self._deadline is None:
            self._expect(request=waiting)

    def on_response_complete(self) -> None:
        """Stop waiting; uvicorn closes a connection that stays idle."""
        self._cancel()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel()
        super().connection_lost(exc)

    def _expect(self, request: bool) -> None:
        self._cancel()
        self._waiting = request
        seconds = REQUEST_SECONDS if request else REPLY_SECONDS
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.transport is not None:
            self.transport.abort()
