"""What people are shown: a `Question` names an example by its content, a `Content` is the example itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ContentKind = Literal["image", "text", "row"]
Cell = str | float | int | bool | None

KEY_BYTES = 16  # 128 bits: no two contents of a project ever share a key by chance


@dataclass(frozen=True)
class Question:
    """One example to be answered: its key, what kind of thing it shows, and the name people know it by."""

    key: str
    """What it shows, as 32 hexadecimal digits: two copies of one picture have one key."""
    kind: ContentKind
    """"image", "text" or "row"."""
    name: str
    """A file's path inside the folder, or a row of a table."""


@dataclass(frozen=True)
class Content:
    """An example as it is shown: the bytes of a picture, one or two texts, or named fields of a row."""

    kind: ContentKind
    """"image", "text" or "row"."""
    name: str
    """What people know it by."""
    data: bytes = b""
    """Of an image, as it lies in its file."""
    mime: str = ""
    """The type of these bytes, for browsers."""
    texts: tuple[str, ...] = ()
    """Of a text, one or two."""
    fields: Mapping[str, Cell] | None = None
    """Of a row, its cells by column."""

    @property
    def key(self) -> str:
        """The key of this content: what it shows and nothing else, so that a file may move or be copied."""
        if self.kind == "image":
            return digest(self.data)
        shown = list(self.texts) if self.kind == "text" else dict(self.fields or {})
        return digest(json.dumps([self.kind, shown], ensure_ascii=False, sort_keys=True).encode())


def digest(data: bytes) -> str:
    """The key of some bytes."""
    return hashlib.blake2b(data, digest_size=KEY_BYTES).hexdigest()


def chance(seed: int, purpose: str, key: str) -> float:
    """A number from 0 to 1 drawn for a key: the same whenever and in whatever order it is asked for."""
    drawn = hashlib.blake2b(f"{seed}\x1f{purpose}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64
