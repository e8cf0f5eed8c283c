"""Whose default device: the CPU is ours, and a model keeps what its user said with `torch.set_default_device`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch

_theirs: ContextVar[torch.device | None] = ContextVar("_theirs", default=None)


@contextmanager
def our_device() -> Iterator[None]:
    """Tensors made inside lie on the CPU unless it is said where: positions and draws do."""
    given = torch.get_default_device()
    if given.type == "cpu":  # a context for it would slow down every operation
        yield
        return
    token = _theirs.set(given)
    try:
        with torch.device("cpu"):
            yield
    finally:
        _theirs.reset(token)


def their_device() -> AbstractContextManager[Any]:
    """Inside `our_device`, what a user's own code makes lies where the user said."""
    return _theirs.get() or nullcontext()
