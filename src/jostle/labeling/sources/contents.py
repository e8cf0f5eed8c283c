"""Examples as people see them: a `Question` names one by its content, a `Content` is a picture, a text or a row."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from jostle.datasets.binary_files import MAX_PIXELS, needs_scaling, to_eight_bits

if TYPE_CHECKING:
    from jostle.labeling.answers import Answer

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
    answer: Answer | None = field(default=None, compare=False)
    """Answer that the person gave before `undo` took it back; None for every other question."""


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
        """Key of this content; a file that moves or is copied keeps it."""
        if self.kind == "image":
            return digest(self.data)
        shown = list(self.texts) if self.kind == "text" else dict(self.fields or {})
        return digest(json.dumps([self.kind, shown], ensure_ascii=False, sort_keys=True).encode())

    @property
    def search_text(self) -> str:
        """Text that words are searched in, without capital letters; a picture has none."""
        return "\n".join([*self.texts, *map(str, (self.fields or {}).values())]).casefold()


def digest(data: bytes) -> str:
    """Return the key of some bytes."""
    return hashlib.blake2b(data, digest_size=KEY_BYTES).hexdigest()


def draw_uniform(seed: int, purpose: str, key: str) -> float:
    """Return a number from 0 to 1 drawn for a key: it depends on seed, purpose and key alone."""
    drawn = hashlib.blake2b(f"{seed}\x1f{purpose}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64


BROWSER_FORMATS = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}
THUMBNAIL_SIDE = 360  # pixels; of the longer side
LARGE_PIXELS = 2**22  # more are decoded one picture at a time: each pixel takes up to 24 bytes meanwhile
MAX_SHOWN_SIDE = 4096  # pixels of a picture that is converted for browsers
STRETCH_PERCENTILES = (0.5, 99.5)  # values that become black and white
MAX_CACHED_BYTES = 2**26  # of converted pictures
_LARGE_PICTURE = threading.Lock()
PICTURE_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class SourceError(ValueError):
    """Data that cannot be labeled as it is; the message says what was found and what to do."""


class UnreadableError(ValueError):
    """An example that exists but cannot be shown; the message says why."""


def unreadable_error(content: Content, reason: Exception) -> UnreadableError:
    """Return the error for a file that is no picture, in plain words."""
    unknown = isinstance(reason, UnidentifiedImageError)
    words = "its content has no format that is known" if unknown else reason
    return UnreadableError(f"{content.name} is not an image that can be read: {words}")


@contextmanager
def open_picture(content: Content) -> Iterator[Image.Image]:
    """Open a picture to decode it in the block; one large picture is decoded at a time.

    Raises:
        UnreadableError: It is no picture, it breaks off, or it has more than `MAX_PIXELS` pixels.
    """
    try:
        with Image.open(io.BytesIO(content.data)) as image:
            pixels = image.width * image.height
            if pixels > MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
            with _LARGE_PICTURE if pixels > LARGE_PIXELS else nullcontext():
                yield image
    except PICTURE_ERRORS as reason:
        raise unreadable_error(content, reason) from reason


def check_picture(content: Content) -> None:
    """Decode a picture, small where its format allows, and raise UnreadableError if that fails."""
    with open_picture(content) as image:
        image.draft("RGB", (64, 64))
        image.load()


def to_browser_format(content: Content) -> Content:
    """Return a picture in a format that browsers show: as it is, or converted to PNG, at most 4,096 pixels wide."""
    with open_picture(content) as image:
        mime = BROWSER_FORMATS.get(image.format or "")
        if mime and not needs_scaling(image):
            return Content("image", content.name, content.data, mime)
        shown = to_eight_bits(image)
        if max(shown.size) > MAX_SHOWN_SIDE:
            shown = shown.convert("RGB")
            shown.thumbnail((MAX_SHOWN_SIDE, MAX_SHOWN_SIDE))
        return Content("image", content.name, encode_png(shown), "image/png")


def stretch_picture(content: Content) -> Content:
    """Return a picture as PNG whose darkest pixels are black and whose brightest are white, in place of its own range.

    The darkest and the brightest half percent may be clipped. 16 and 32 bits are read in full, so that a picture with
    a few bright pixels shows what is in the dark.
    """
    with open_picture(content) as image:
        upright = image if needs_scaling(image) else ImageOps.exif_transpose(image).convert("RGB")
        values = np.asarray(upright, dtype=np.float32)  # (height, width) or (height, width, 3)
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, STRETCH_PERCENTILES) if finite.size else (0.0, 1.0)
    shares = np.nan_to_num((values - low) / (high - low or 1.0), nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    shown = Image.fromarray((shares * 255).round().astype(np.uint8))
    shown.thumbnail((MAX_SHOWN_SIDE, MAX_SHOWN_SIDE))
    return Content("image", content.name, encode_png(shown), "image/png")


def make_thumbnail(content: Content, side: int = THUMBNAIL_SIDE) -> Content:
    """Return a picture for a grid or a list; a small one is returned unchanged."""
    with open_picture(content) as image:
        if max(image.size) <= side and not needs_scaling(image):
            return content
        image.draft("RGB", (side, side))  # a JPEG is decoded small
        small = to_eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
        small.thumbnail((side, side))
    held = io.BytesIO()
    small.save(held, "JPEG", quality=80)
    return Content("image", content.name, held.getvalue(), "image/jpeg")


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG of 8 bits a channel."""
    held, image = io.BytesIO(), to_eight_bits(image)
    (image if image.mode in ("1", "L", "P", "RGB", "RGBA") else image.convert("RGB")).save(held, "PNG")
    return held.getvalue()


class PictureCache:
    """Converted pictures by key, the last used ones, at most `MAX_CACHED_BYTES` of them."""

    def __init__(self, limit: int = MAX_CACHED_BYTES) -> None:
        self.limit, self.size = limit, 0
        self._held: OrderedDict[str, Content] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Content]) -> Content:
        """Return the picture of a key, made now if it is not held."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            if key not in self._held and len(made.data) <= self.limit:
                self._held[key] = made
                self.size += len(made.data)
            while self.size > self.limit:
                self.size -= len(self._held.popitem(last=False)[1].data)
        return made


def shown_json(content: Content) -> dict[str, Any]:
    """Return a text or a row as the page draws it."""
    if content.kind == "text":
        return {"kind": "text", "texts": list(content.texts)}
    fields = content.fields or {}
    return {
        "kind": "row",
        "fields": [[name, "" if value is None else str(value)] for name, value in fields.items()],
    }
