"""Readers of files from elsewhere: pictures, idx files, pickles, MATLAB files. No code that a file names is run.

Nothing here needs torch: the labeling server reads pictures too.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from jostle.datasets.fetch import DataError, File, Member, read_gzip

MAX_PIXELS = Image.MAX_IMAGE_PIXELS or 2**26  # of a file: Pillow warns of more, here it is an error
MAX_RESIZED_PIXELS = 2**24  # a picture that would be larger once it is resized is cropped before

Frame = Callable[[Image.Image], Image.Image]


def read_image(file: File, frame: Frame = lambda image: image) -> Image.Image:
    """Read an image as it is in its file, or framed; raise DataError, which names the file, if that fails."""
    try:
        with Image.open(io.BytesIO(file.content) if isinstance(file, Member) else file) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise DataError(f"{opened.width} x {opened.height} pixels are more than {MAX_PIXELS}")
            opened.load()  # now, while the file is open
            return frame(opened)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as reason:
        raise DataError(f"{file} is not an image that can be read: {reason}") from reason


def needs_scaling(image: Image.Image) -> bool:
    """Return whether the pixels of an image are not bytes: 16 or 32 bits, or floating point."""
    return image.mode[0] in "IF"


def to_eight_bits(image: Image.Image) -> Image.Image:
    """Scale a picture of 16 or 32 bits to bytes, its lowest value to 0 and its highest to 255.

    Pillow's own conversion clips every value above 255 to white. A picture whose channels are bytes is returned as it
    is. A picture of one value becomes black, and pixels that are not finite count as the lowest value.
    """
    if not needs_scaling(image):
        return image
    values = np.asarray(image, dtype=np.float64)  # (height, width)
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    shares = (np.where(finite, values, low) - low) / (high - low or 1.0)
    return Image.fromarray((shares * 255).round().astype(np.uint8))


@dataclass(frozen=True)
class Cropped:
    """The short side brought to `short` pixels, then the middle `size` × `size`."""

    size: int
    short: int
    mode: str = "RGB"

    def __post_init__(self) -> None:
        if not 0 < self.size <= self.short:
            raise DataError(f"cannot cut {self.size} pixels from a short side of {self.short}")

    def __call__(self, image: Image.Image) -> Image.Image:
        """Frame one image."""
        scale = self.short / min(image.size)
        width, height = (max(self.short, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        right, bottom = left + self.size, top + self.size
        image = to_eight_bits(image).convert(self.mode)
        if width * height > MAX_RESIZED_PIXELS:
            x, y = image.width / width, image.height / height
            box = (left * x, top * y, min(right * x, image.width), min(bottom * y, image.height))
            return image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        return image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, right, bottom))

    def __str__(self) -> str:
        cut = f"the middle {self.size} x {self.size}"
        return f"short side to {self.short}, then {cut}, {self.mode}"


@dataclass(frozen=True)
class Stretched:
    """Height and width brought to `size`, or left alone; mode "" keeps raw values, as label maps need."""

    size: tuple[int, int] | None = None  # (height, width)
    mode: str = "RGB"

    def __call__(self, image: Image.Image) -> Image.Image:
        """Frame one image."""
        if not self.mode and image.mode not in ("L", "P"):
            raise DataError(f"a label map has one channel of 8 bits, this has mode {image.mode}")
        image = to_eight_bits(image).convert(self.mode) if self.mode else image
        if self.size is None or image.size == self.size[::-1]:
            return image
        smooth = Image.Resampling.BILINEAR if self.mode else Image.Resampling.NEAREST
        return image.resize(self.size[::-1], smooth)

    def __str__(self) -> str:
        return f"{'as they are' if self.size is None else '{} x {}'.format(*self.size)}, {self.mode}"


def make_frame(size: int | Sequence[int] | None, short: int | None, mode: str) -> Frame:
    """Return the frame of the settings `size`, `short` and `mode` of folders and Parquet files.

    Args:
        size: A number is the side of the square that is cut out of the middle; a pair (height, width) stretches; None
            keeps the size.
        short: Length of the short side before the square is cut out; None: `size`.
        mode: "RGB" or "L".
    """
    sides = () if size is None else (size, size) if isinstance(size, int) else tuple(size)
    if sides and not (len(sides) == 2 and min(sides) > 0 and prod(sides) <= MAX_PIXELS):
        raise ValueError(f"size is a number, or height and width, of up to {MAX_PIXELS} pixels; got {size}")
    if isinstance(size, int):
        return Cropped(size, short or size, mode)
    if short is not None:
        raise DataError("short goes with an integer size: the short side is brought to it, then size is cut")
    return Stretched((sides[0], sides[1]) if sides else None, mode)


MAX_IDX_BYTES = 2**30  # of one idx file, unpacked; 20 times MNIST
MAX_TUPLES = 10_000  # in a pickle; nested without end, their hash would overflow the stack
MAX_MATLAB_BYTES = 2**31  # of one array, unpacked; SVHN's extra set has 1.6e9

MEMO_CODES = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}  # pickle codes that change nothing
ARRAY_MODULES = (
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "numpy.core.numeric",
    "numpy._core.numeric",
)

MATLAB_HEADER = 128  # bytes; the last two give the byte order
MATLAB_ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX, PACKED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}

Element = tuple[int, memoryview]  # type, content


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes with this many dimensions, gzipped or not."""
    content = read_gzip(path, MAX_IDX_BYTES) if path.suffix == ".gz" else path.read_bytes()
    magic, start = bytes([0, 0, 8, dimensions]), 4 + 4 * dimensions
    if content[:4] != magic:
        raise DataError(
            f"{path} is not an idx file: it begins with {content[:4].hex()}, expected {magic.hex()}"
        )
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    found = len(content) - start
    if found != prod(shape):
        raise DataError(f"{path} holds {found} values, but its header promises {shape}, {prod(shape)} in all")
    return np.frombuffer(bytearray(content), np.uint8, offset=start).reshape(shape)


def read_pickle(content: bytes) -> Any:
    """Read a pickle of dicts, lists, words, numbers and arrays of bytes (uint8).

    An array is rebuilt here from its bytes and its shape. The types that the pickle names are compared with uint8, and
    never passed to numpy, which a forged type can crash.
    """
    _check_tuples(content)
    loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(loaded, dict):
        return loaded
    return {key: value.array() if isinstance(value, _Bytes) else value for key, value in loaded.items()}


def _check_tuples(content: bytes) -> None:
    """Refuse a pickle of many tuples; the arguments of a call do not count."""
    names = [code.name for code, _, _ in pickletools.genops(content) if code.name not in MEMO_CODES]
    tuples = sum(name.startswith("TUPLE") and after != "REDUCE" for name, after in pairwise(names))
    if tuples > MAX_TUPLES:
        raise pickle.UnpicklingError(f"it has {tuples} tuples; expected a few")


class _Unpickler(pickle.Unpickler):
    """An unpickler that finds stand-ins only, made anew for each pickle, so that no pickle spoils the next."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = _stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self.known[module, name]


class _Bytes:
    """An array of bytes in the making."""

    def array(self) -> NDArray[np.uint8]:
        """The array, once its shape, type and content are known."""
        raise NotImplementedError


def _stand_ins() -> dict[tuple[str, str], Any]:
    """Return harmless stand-ins by the names that numpy's arrays use in pickles."""

    class Type(str):
        """A type's name."""

        def __new__(cls, name: Any, *_: Any) -> Type:
            return super().__new__(cls, name.decode() if isinstance(name, bytes) else str(name))

        def __setstate__(self, state: Any) -> None:
            """Ignore byte order and fields, which bytes do not have."""

    class Array(_Bytes):
        """The state of an array, kept until it can be checked."""

        state: Any = None

        def __setstate__(self, state: Any) -> None:
            _, *self.state = state  # a version, then shape, type, whether in Fortran's order, content

        def array(self) -> NDArray[np.uint8]:
            shape, kind, fortran, content = self.state
            return _byte_array(shape, kind, fortran, content)

    class Buffer(Array):
        """An array as protocol 5 writes it."""

        def __init__(self, content: Any, kind: Any, shape: Any, order: Any = "C") -> None:
            self.state = [shape, kind, order != "C", bytes(content)]

    found: dict[tuple[str, str], Any] = {("numpy", "ndarray"): Array, ("numpy", "dtype"): Type}
    for module in ARRAY_MODULES:
        found[module, "_reconstruct"] = lambda *_: Array()
        found[module, "_frombuffer"] = Buffer
    found["_codecs", "encode"] = lambda text, codec: _encode_latin1(text, codec)
    return found


def _encode_latin1(text: Any, codec: Any) -> bytes:
    """Return bytes that protocols 0 to 2 write as text in latin1."""
    words = text.decode("latin1") if isinstance(text, bytes) else str(text)
    if codec not in ("latin1", b"latin1", "latin-1", b"latin-1"):
        raise pickle.UnpicklingError(f"it has text in {codec!r}; expected latin1")
    return words.encode("latin1")


def _byte_array(shape: Any, kind: Any, fortran: Any, content: Any) -> NDArray[np.uint8]:
    if not isinstance(kind, str) or kind.lstrip("|=<>") not in ("u1", "uint8"):
        raise pickle.UnpicklingError(f"it has an array of {kind!s:.20}; expected bytes (uint8)")
    sizes = [int(size) for size in shape]
    raw = content.encode("latin1") if isinstance(content, str) else content
    if fortran or not isinstance(raw, bytes) or min(sizes, default=0) < 0 or prod(sizes) != len(raw):
        raise pickle.UnpicklingError(f"it has an array of shape {tuple(sizes)} whose bytes do not fit")
    return np.frombuffer(raw, np.uint8).reshape(sizes)


def read_matlab(path: Path, names: Collection[str]) -> dict[str, NDArray[np.generic]]:
    """Read the arrays of these names from a MATLAB file of version 5 to 7; DataError says what is wrong."""
    content = memoryview(path.read_bytes())
    order = MATLAB_ORDERS.get(bytes(content[MATLAB_HEADER - 2 : MATLAB_HEADER]))
    if order is None:
        raise DataError("it is no MATLAB file of version 5 to 7")
    found: dict[str, NDArray[np.generic]] = {}
    for kind, body in _elements(content[MATLAB_HEADER:], order):
        if kind == PACKED:
            kind, body = next(_elements(_unpack(body), order), (0, body))
        if kind == MATRIX and (array := _matlab_array(body, order, names)):
            found |= array
    return found


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    """Yield types and contents, one after another; an element that ends beyond the file is an error."""
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


def _unpack(body: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(body, MAX_MATLAB_BYTES)
    except zlib.error as reason:
        raise DataError(f"it cannot be unpacked: {reason}") from reason
    if not stream.eof:
        raise DataError(f"it ends early, or unpacks to more than {MAX_MATLAB_BYTES:,} bytes")
    return memoryview(content)


def _matlab_array(body: memoryview, order: str, names: Collection[str]) -> dict[str, NDArray[np.generic]]:
    """Return one array by its name, if it is wanted."""
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
