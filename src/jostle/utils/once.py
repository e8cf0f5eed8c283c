"""Attributes that are computed once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801 - stands for the one of functools
    """`functools.cached_property` without the lock that Python 3.11 has in it.

    That lock is one for all instances: a process forked while another thread computes would wait for it for ever.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()
