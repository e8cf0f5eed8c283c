"""Names: every unknown one is answered with the nearest known one, and every one can be written down."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


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
    """The error for a name that is not in a catalogue."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names) or 'none'})")


def look_up(kind: str, name: str, catalogue: Mapping[str, T]) -> T:
    """The catalogue's entry, or an error that suggests the nearest name."""
    if name not in catalogue:
        raise unknown(kind, name, catalogue)
    return catalogue[name]
