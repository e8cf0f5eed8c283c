"""Coroutines in tests that share their process with a browser's."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for it in a thread of its own: a browser's tests in the same process have a loop running."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
