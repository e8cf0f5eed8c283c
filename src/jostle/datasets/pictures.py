"""Single pictures: opened, brought to 8 bits, cropped or resized. Nothing here needs torch."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from PIL import Image

from jostle.datasets.fetch import DataError, File, Member

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
