"""Examples as people see them, and fingerprints that find their near-copies.

A `Question` names an example by its content, a `Content` is a picture, a text or a row.

A picture has a hash of 63 bits: the signs of its low frequencies (a discrete cosine transform), of the whole and of
windows in it, so that a crop matches a window of its original. Hashes that differ in a few bits make a candidate. Two
candidates are near-copies if their pixels, brought to the same window, agree everywhere. A text has one hash, of its
words with all digits replaced: near-copies have equal ones.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from jostle.datasets.binary_files import MAX_PIXELS, needs_scaling, to_eight_bits

if TYPE_CHECKING:
    from jostle.labeling.answers import Answer


ContentKind = Literal["image", "text", "row"]
Cell = str | float | int | bool | None

KEY_BYTES = 16  # 128 bits: no two contents of a project ever share a key by chance
BROWSER_FORMATS = {name: f"image/{name.lower()}" for name in ("JPEG", "PNG", "GIF", "WEBP", "BMP")}
THUMBNAIL_SIDE = 360  # pixels; of the longer side
LARGE_PIXELS = 2**22  # more are decoded one picture at a time: each pixel takes up to 24 bytes meanwhile
MAX_SHOWN_SIDE = 4096  # pixels of a picture that is converted for browsers
STRETCH_PERCENTILES = (0.5, 99.5)  # values that become black and white
MAX_CACHED_BYTES = 2**26  # of converted pictures
_LARGE_PICTURE = threading.Lock()
PICTURE_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
Hashes = NDArray[np.uint64]  # (n, windows), the whole first
Pairs = NDArray[np.int64]  # (p, 4)
Pixels = NDArray[np.float32]  # (side, side, 3)
MIN_SIDE = 32  # pixels: smaller pictures have too little detail to tell copies from similar ones
SIDE = 64  # pixels of the square that a picture is hashed and compared in
FREQUENCIES = 8  # along each side of a hash
SCALES = (0.9, 0.8)  # sides of the windows
MAX_DISTANCE = 12  # bits in which the hashes of candidates differ
MAX_CLOSE = 40  # windows that one picture is paired with in one band
BANDS = 8  # parts of a hash of which candidates have one in common
COMPARED = 16  # pixels of the square in which candidates are compared
BLOCK = 4  # pixels of the squares that have to agree, each on its own
MIN_AGREEMENT = 0.96  # correlation of all pixels
MIN_BLOCK_AGREEMENT = 0.7  # of each block
BLOCK_NOISE = 6.0  # standard deviation, of 255, that encoding makes of nothing
MIN_CONTRAST = 8.0  # standard deviation, of 255, of a picture that can be compared
STEPS = (0.05, 0.025, 0.0125)  # by which a window is moved and sized to fit
MIN_WORDS = 4  # in a text whose digits do not count
PAIRS_AT_ONCE = 2**22
PLACES = (0.0, 0.5, 1.0)  # of the windows of one scale, along each side
STARTS = [(place * (1 - scale), scale) for scale in SCALES for place in PLACES]
INTERVALS = [
    (0.0, 1.0),
    *((start, start + scale) for start, scale in STARTS),
]  # sides of all windows, the whole first
SIDES = [
    range(first, first + len(PLACES)) for first in range(1, len(INTERVALS), len(PLACES))
]  # those of one scale
WINDOWS = [
    (0, 0),
    *(pair for sides in SIDES for pair in product(sides, sides)),
]  # pairs of sides: the whole, then all
NO_HASHES: Hashes = np.zeros(len(WINDOWS), dtype=np.uint64)


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


class SourceError(ValueError):
    """Data that cannot be labeled as it is; the message says what was found and what to do."""


class UnreadableError(ValueError):
    """An example that exists but cannot be shown; the message says why."""


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
        unknown = isinstance(reason, UnidentifiedImageError)
        words = "its content has no format that is known" if unknown else reason
        raise UnreadableError(f"{content.name} is not an image that can be read: {words}") from reason


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
    cells = (content.fields or {}).items()
    return {"kind": "row", "fields": [[name, "" if value is None else str(value)] for name, value in cells]}


def _cosines() -> NDArray[np.float32]:
    """Return the low frequencies over each interval: (intervals, frequencies, side)."""
    low, high = np.array(INTERVALS).T[:, :, None]
    edges = np.clip((np.arange(SIDE + 1) / SIDE - low) / (high - low), 0, 1)  # (intervals, side + 1)
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    waves = np.cos(np.pi * np.arange(FREQUENCIES)[:, None] * middle[:, None])
    return np.asarray(waves * np.diff(edges)[:, None], dtype=np.float32)


COSINES = _cosines()


def picture_pixels(content: Content) -> tuple[Pixels, tuple[int, int]]:
    """Decode a picture into a square of `SIDE` pixels, upright and in color, and return it with the picture's size."""
    with open_picture(content) as opened:
        size = opened.size
        opened.draft("RGB", (2 * SIDE, 2 * SIDE))
        upright = to_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
        return np.asarray(upright.resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float32), size


def picture_hashes(pixels: Pixels, size: tuple[int, int]) -> Hashes:
    """Return the hashes of all windows of a picture, (windows,).

    Zeros, which match nothing, for one that has hardly any contrast or is small.
    """
    if pixels.std() < MIN_CONTRAST or min(size) < MIN_SIDE:
        return NO_HASHES
    rows = COSINES.reshape(-1, SIDE)
    found = (rows @ pixels.mean(2) @ rows.T).reshape(len(INTERVALS), FREQUENCIES, len(INTERVALS), FREQUENCIES)
    signs = np.stack([found[y, :, x].ravel() > 0 for y, x in WINDOWS])  # (windows, frequencies^2)
    signs[:, 0] = True  # the mean, which is always positive
    return np.packbits(signs, axis=1).view(np.uint64)[:, 0]


def text_hashes(texts: tuple[str, ...]) -> Hashes:
    """Return the hash of one or two texts, (1,): words without case and punctuation, and their digits masked."""
    words = [" ".join(re.findall(r"\w+", text.casefold())) for text in texts]
    if len(re.findall(r"\b[^\W\d]+\b", " ".join(words))) >= MIN_WORDS:
        words = [re.sub(r"\d+", "0", text) for text in words]
    return np.array([int(digest("\n".join(words).encode())[:16], 16)], dtype=np.uint64)


def close_pairs(wholes: Hashes, windows: Hashes) -> Pairs:
    """Return the pairs of whole pictures and windows of others whose hashes are close, the closest first.

    Of many that are close, as in a film, the first of `windows` are returned.

    Args:
        wholes: Hashes (n, windows), of which the first column counts.
        windows: Hashes (m, windows).

    Returns:
        Rows of a place in `wholes`, one in `windows`, the window, and the bits in which they differ.
    """
    count, one, all_of = windows.shape[1], wholes[:, 0].copy(), windows.ravel().copy()
    parts, others = (each.view(np.uint8).reshape(-1, BANDS) for each in (one, all_of))
    found = [np.zeros((0, 4), dtype=np.int64)]
    for band in range(BANDS):
        order = np.argsort(others[:, band], kind="stable")
        starts = np.searchsorted(others[order, band], np.arange(257))
        for value in range(256):
            here = np.flatnonzero((parts[:, band] == value) & (one != 0))  # zeros: pictures without contrast
            there = order[starts[value] : starts[value + 1]]
            for some in np.array_split(here, len(here) * len(there) // PAIRS_AT_ONCE + 1):
                bits = count_bits(one[some, None] ^ all_of[None, there])
                a, b = np.nonzero(bits <= MAX_DISTANCE)
                kept = np.arange(len(a)) - np.searchsorted(a, np.arange(len(some)))[a] < MAX_CLOSE
                a, b = a[kept], b[kept]
                found.append(np.stack([some[a], there[b] // count, there[b] % count, bits[a, b]], 1))
    pairs: Pairs = np.concatenate(found)
    pairs = pairs[np.lexsort((pairs[:, 2], pairs[:, 3]))]
    _, kept = np.unique(pairs[:, 0] * len(windows) + pairs[:, 1], return_index=True)
    return pairs[np.sort(kept)]  # type: ignore[no-any-return]


def count_bits(numbers: Hashes) -> NDArray[np.int64]:
    """Return the number of ones in each number; NumPy has this since 2.0."""
    ones, pairs, fours, bytes_ = (np.uint64(0xFFFFFFFFFFFFFFFF // each) for each in (3, 5, 17, 255))
    numbers = numbers - ((numbers >> np.uint64(1)) & ones)
    numbers = (numbers & pairs) + ((numbers >> np.uint64(2)) & pairs)
    numbers = (numbers + (numbers >> np.uint64(4))) & fours
    return ((numbers * bytes_) >> np.uint64(56)).astype(np.int64)


def agreement(whole: Pixels, other: Pixels, window: int) -> float:
    """Return how well a picture agrees with a window of another, fitted around it: 1 for copies, 0 for others.

    It is the correlation of all pixels, so brightness and contrast do not count; 0 if one block differs.
    """
    target = _cut(whole, 0.0, 0.0, 1.0)
    (top, bottom), (left, right) = (INTERVALS[side] for side in WINDOWS[window])
    size, y, x = bottom - top, (top + bottom) / 2, (left + right) / 2
    best = -1.0
    for step in STEPS:
        for ds, dy, dx in product((0, -step, step), repeat=3):
            side = min(size + ds, 1.0)
            middle = [min(max(at, side / 2), 1 - side / 2) for at in (y + dy, x + dx)]
            fitted = _cut(other, middle[0] - side / 2, middle[1] - side / 2, side)
            if (found := _correlation(fitted, target)) > best:
                best, chosen, cut = found, (side, *middle), fitted
        size, y, x = chosen
    agree = best >= MIN_AGREEMENT and bool((block_correlations(cut, target) >= MIN_BLOCK_AGREEMENT).all())
    return best if agree else 0.0


def _cut(pixels: Pixels, top: float, left: float, side: float) -> Pixels:
    """Return a window of a picture in a square of `COMPARED` pixels: the means over their areas."""
    found = np.tensordot(_areas(top, side), pixels, 1)  # (compared, side, 3)
    return np.tensordot(_areas(left, side), found, (1, 1)).transpose(1, 0, 2)


@lru_cache(maxsize=4096)
def _areas(start: float, side: float) -> NDArray[np.float32]:
    """Return the share of each pixel in each part of an interval: (compared, side)."""
    parts = start + side * np.arange(COMPARED + 1)[:, None] / COMPARED
    edges = np.arange(SIDE + 1) / SIDE
    shared = np.minimum(parts[1:], edges[1:]) - np.maximum(parts[:-1], edges[:-1])
    return (shared.clip(min=0) * COMPARED / side).astype(np.float32)


def _correlation(a: Pixels, b: Pixels) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / max(np.sqrt((a * a).sum() * (b * b).sum()), 1e-9))


def block_correlations(a: Pixels, b: Pixels) -> NDArray[np.float32]:
    """Return the correlation of each block; blocks that vary less than noise count as equal."""

    def blocks(pixels: Pixels) -> NDArray[np.float32]:
        parts = COMPARED // BLOCK
        return pixels.reshape(parts, BLOCK, parts, BLOCK, 3).swapaxes(1, 2).reshape(parts * parts, -1)

    scale = a.std() / max(b.std(), 1e-9)
    first, second = blocks(a - a.mean()), blocks((b - b.mean()) * scale)
    gap = ((first - second) ** 2).mean(1)
    spread = np.maximum(first.var(1), second.var(1)) + BLOCK_NOISE**2
    return 1 - gap / (2 * spread)  # type: ignore[no-any-return]
