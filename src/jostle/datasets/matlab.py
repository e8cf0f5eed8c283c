"""Arrays of numbers in MATLAB's .mat files (version 5 to 7), read without trusting them.

Files of other kinds of content are left to others; a reader that handles all of them is easily led astray.
"""

import zlib
from collections.abc import Collection, Iterator
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jostle.datasets.errors import DataError

HEADER = 128  # bytes; the last two tell the order of bytes
ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX, PACKED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
MOST_BYTES = 2**31  # of one array, unpacked; SVHN's extra set has 1.6e9

Element = tuple[int, memoryview]  # type, content


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[np.generic]]:
    """The arrays of these names; whatever is wrong is a ValueError that says what."""
    content = memoryview(path.read_bytes())
    order = ORDERS.get(bytes(content[HEADER - 2 : HEADER]))
    if order is None:
        raise DataError("it is no MATLAB file of version 5 to 7")
    found: dict[str, NDArray[np.generic]] = {}
    for kind, body in _elements(content[HEADER:], order):
        if kind == PACKED:
            kind, body = next(_elements(_unpacked(body), order), (0, body))
        if kind == MATRIX and (array := _array(body, order, names)):
            found |= array
    return found


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    """Types and contents, one after another; one that ends beyond the file is an error."""
    place = 0
    while place + 8 <= len(content):
        first, size = np.frombuffer(content, f"{order}u4", 2, place).tolist()
        start = place + 8
        if first >> 16:  # up to four bytes lie in the tag itself
            first, size, start = first & 0xFFFF, first >> 16, place + 4
            if size > 4:
                raise DataError(f"a small element has {size} bytes")
        if start + size > len(content):
            raise DataError(f"it ends within an element of {size} bytes")
        yield first, content[start : start + size]
        place = start + size if first == PACKED else -(-(start + size) // 8) * 8


def _unpacked(body: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(body, MOST_BYTES)
    except zlib.error as reason:
        raise DataError(f"it cannot be unpacked: {reason}") from reason
    if not stream.eof:
        raise DataError(f"it ends early, or unpacks to more than {MOST_BYTES:,} bytes")
    return memoryview(content)


def _array(body: memoryview, order: str, names: Collection[str]) -> dict[str, NDArray[np.generic]]:
    """One array by its name, if it is wanted."""
    parts = list(_elements(body, order))
    if len(parts) < 3:
        raise DataError("an array has no flags, shape and name")
    (_, flags), (_, sizes), (_, title) = parts[:3]
    name = bytes(title).decode("latin1")
    if name not in names:
        return {}
    meaning = CLASSES.get(int.from_bytes(flags[:4], "little" if order == "<" else "big") & 0xFF)
    shape = [int(size) for size in np.frombuffer(sizes[: len(sizes) // 4 * 4], f"{order}i4")]
    if meaning is None or len(parts) < 4 or parts[3][0] not in STORED:
        raise DataError(f"{name} is no array of numbers")
    kind, data = parts[3]
    stored = np.dtype(order + STORED[kind])
    if min(shape, default=-1) < 0 or prod(shape) * stored.itemsize != len(data):
        raise DataError(f"{name} of shape {tuple(shape)} has {len(data)} bytes")
    return {name: np.frombuffer(data, stored).astype(meaning, copy=False).reshape(shape, order="F")}
