"""Names: every unknown one is answered with the nearest known one, and every one can be written down."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from typing import Any, TypeVar

T = TypeVar("T")
FEW_NAMES = 8  # that an error lists in full


def printable(text: str) -> str:
    """A text that can be written as UTF-8: bytes of a file name that are none are shown as `\\xe9`."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a pair, which no file name gave
        return text.encode("utf-8", "backslashreplace").decode()


def restored(text: str) -> str:
    """The file name that `printable` was given, if its `\\xe9` are bytes and not letters of the name."""
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda found: chr(0xDC00 + int(found[1], 16)), text)


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is not registered, with the three nearest names, or all where they are few."""
    names = sorted(known)
    few = len(names) <= FEW_NAMES
    near = get_close_matches(str(name), names, n=1 if few else 3, cutoff=0.5)
    hint = f"; did you mean {_alternatives(near)}?" if near else ""
    if few:
        hint += f" (known: {', '.join(names) or 'none'})"
    elif not near:
        hint = f"; there are {len(names)}, such as {', '.join(names[:3])}"
    return ValueError(f"unknown {kind} {name!r}{hint}")


def _alternatives(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def look_up(kind: str, name: str, registry: Mapping[str, T]) -> T:
    """The registry's entry, or an error that suggests the nearest name."""
    if name not in registry:
        raise unknown(kind, name, registry)
    return registry[name]


class cached_property(functools.cached_property[T]):  # noqa: N801 - stands for the one of functools
    """`functools.cached_property` without the lock that Python 3.11 has in it.

    That lock is one for all instances: a process forked while another thread computes would wait for it for ever.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()
