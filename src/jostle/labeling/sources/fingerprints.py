"""Fingerprints of pictures and texts: equal or close ones are candidates for near-copies, and pixels decide.

A picture has a hash of 63 bits: the signs of its low frequencies (a discrete cosine transform), of the whole and of
windows in it, so that a crop matches a window of its original. Hashes that differ in a few bits make a candidate. Two
candidates are near-copies if their pixels, brought to the same window, agree everywhere. A text has one hash, of its
words with all digits replaced: near-copies have equal ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from jostle.datasets.binary_files import to_eight_bits
from jostle.labeling.sources.contents import Content, digest, open_picture

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


def _intervals() -> list[tuple[float, float]]:
    """Return the sides of all windows, the whole first."""
    inner = [(place * (1 - scale), scale) for scale in SCALES for place in (0.0, 0.5, 1.0)]
    return [(0.0, 1.0), *((start, start + scale) for start, scale in inner)]


def _windows() -> list[tuple[int, int]]:
    """Return the windows as pairs of sides: the whole, then all of one scale."""
    each = len(SCALES) + 1
    sides = [range(1 + each * scale, 1 + each * (scale + 1)) for scale in range(len(SCALES))]
    return [(0, 0), *(pair for side in sides for pair in product(side, side))]


INTERVALS, WINDOWS = _intervals(), _windows()


def _cosines() -> NDArray[np.float32]:
    """Return the low frequencies over each interval: (intervals, frequencies, side)."""
    rows = []
    for low, high in INTERVALS:
        edges = np.clip((np.arange(SIDE + 1) / SIDE - low) / (high - low), 0, 1)
        orders = np.pi * np.arange(FREQUENCIES)[:, None]
        middle = (edges[1:] + edges[:-1]) / 2
        rows.append(np.cos(orders * middle) * np.diff(edges))
    return np.array(rows, dtype=np.float32)


COSINES = _cosines()


def picture_pixels(content: Content) -> Pixels:
    """Decode a picture into a square of `SIDE` pixels, upright and in color; raise UnreadableError if that fails."""
    with open_picture(content) as opened:
        opened.draft("RGB", (2 * SIDE, 2 * SIDE))
        upright = to_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
        return np.asarray(upright.resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float32)


NO_HASHES: Hashes = np.zeros(len(WINDOWS), dtype=np.uint64)


def picture_size(content: Content) -> tuple[int, int]:
    """Return width and height of a picture; raise UnreadableError if it is none."""
    with open_picture(content) as opened:
        return opened.size


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
