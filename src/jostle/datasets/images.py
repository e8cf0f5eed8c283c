"""Images: normalising those that fit in memory, and decoding files batch by batch where they do not."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from jostle.datasets.errors import DataError
from jostle.plumbing.once import cached_property

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KEEP_BYTES = 2**31  # decoded images of a whole split are kept when they fit into this
MOST_PIXELS = Image.MAX_IMAGE_PIXELS or 2**26  # of a file: Pillow warns of more, here it is an error
SLIVER = 2**24  # pixels: what would be larger once it is resized is cut out before
THREADS = min(8, os.cpu_count() or 1)  # decoding leaves Python's lock, so threads do help

Frame = Callable[[Image.Image], Image.Image]


class Member(NamedTuple):
    """A file inside an archive, with its compressed content in memory."""

    archive: Path
    name: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.archive}:{self.name}"


File = Path | Member


def path_in(file: File) -> PurePath:
    """The path of a file, or its path inside its archive."""
    return PurePath(file.name) if isinstance(file, Member) else file


def standardised(pixels: Tensor, mean: Sequence[float], std: Sequence[float], white: float = 255) -> Tensor:
    """Pixels (n, channels, height, width) from 0 to `white` as float32, mean and std taken out."""
    values = pixels.to(torch.float32, copy=True).div_(white)
    shift, scale = (
        torch.tensor(v, dtype=torch.float32, device=pixels.device).view(-1, 1, 1) for v in (mean, std)
    )
    return values.sub_(shift).div_(scale)


def eight_bits(image: Image.Image) -> Image.Image:
    """The image, if its channels are bytes: Pillow would make nearly all of any other white."""
    if image.mode[0] in "IF":
        raise DataError(
            f"it has more than 8 bits a channel (mode {image.mode}): make a tensor of it yourself (--transform)"
        )
    return image


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
        image = eight_bits(image).convert(self.mode)
        if width * height > SLIVER:
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
        image = eight_bits(image).convert(self.mode) if self.mode else image
        if self.size is None or image.size == self.size[::-1]:
            return image
        smooth = Image.Resampling.BILINEAR if self.mode else Image.Resampling.NEAREST
        return image.resize(self.size[::-1], smooth)

    def __str__(self) -> str:
        return f"{'as they are' if self.size is None else '{} x {}'.format(*self.size)}, {self.mode}"


@dataclass(frozen=True, eq=False)
class Pixels:
    """Image files seen as one uint8 tensor that is decoded where it is asked for.

    What was decoded is kept when the whole fits into `keep_bytes`, so that later epochs index a tensor.
    """

    files: Sequence[File]
    frame: Frame
    keep_bytes: int = KEEP_BYTES

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Tensor) -> Tensor:
        positions = _positions(index, len(self))
        kept, known = self._kept
        if kept is None:
            return self._decode(positions.tolist())
        missing = torch.tensor(sorted({*positions[~known[positions]].tolist()}), dtype=torch.int64)
        if len(missing):
            kept[missing] = self._decode(missing.tolist())
            known[missing] = True
        return kept[positions]

    def image(self, position: int) -> Image.Image:
        """One framed image."""
        return read_image(self.files[position], self.frame)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape that every image has, taken from the first."""
        return tuple(_array(self.image(0)).shape)

    @cached_property
    def _kept(self) -> tuple[Tensor | None, Tensor]:
        fits = len(self) > 0 and len(self) * int(np.prod(self.shape)) <= self.keep_bytes
        known = torch.zeros(len(self), dtype=torch.bool)
        return (torch.empty(len(self), *self.shape, dtype=torch.uint8) if fits else None), known

    def _decode(self, positions: list[int]) -> Tensor:
        if not positions:
            return torch.empty(0, *(self.shape if len(self) else ()), dtype=torch.uint8)
        return torch.stack([torch.from_numpy(array) for array in self._arrays(positions)])

    def _arrays(self, positions: list[int]) -> Iterator[NDArray[np.uint8]]:
        with ThreadPoolExecutor(max(1, min(THREADS, len(positions)))) as workers:
            images = workers.map(self.image, positions)
            for position, image in zip(positions, images, strict=True):
                array = _array(image)
                if array.shape != self.shape:
                    raise DataError(
                        f"{self.files[position]} has shape {array.shape}, {self.files[0]} has {self.shape}: "
                        "give a size, so that images can share a batch, as in folder:PATH(size=224)"
                    )
                yield array


def read_image(file: File, frame: Frame = lambda image: image) -> Image.Image:
    """An image as it is in its file, or framed; whatever is wrong is an error that names the file."""
    try:
        with Image.open(io.BytesIO(file.content) if isinstance(file, Member) else file) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise DataError(f"{opened.width} x {opened.height} pixels are more than {MOST_PIXELS}")
            opened.load()  # now, while the file is open
            return frame(opened)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as reason:
        raise DataError(f"{file} is not an image that can be read: {reason}") from reason


class ImageFiles:
    """Image files as normalised float32 batches (n, channels, height, width), or one by one.

    Args:
        files: Paths, or members of archives.
        frame: What is done to each image before it becomes numbers: one that is cropped or stretched.
        mean: Taken off each channel, of pixels in 0..1.
        std: What each channel is divided by then.
        keep_bytes: Decoded images are kept where all of them fit into so many.
        scale: What white is, before mean and std are taken out.
    """

    by_batch = True

    def __init__(
        self,
        files: Sequence[File],
        frame: Frame,
        mean: Sequence[float] = IMAGENET[0],
        std: Sequence[float] = IMAGENET[1],
        keep_bytes: int = KEEP_BYTES,
        scale: float = 1,  # what white is, before mean and std are taken out
    ) -> None:
        self.pixels, self.mean, self.std = Pixels(tuple(files), frame, keep_bytes), tuple(mean), tuple(std)
        self.white = 255 / scale

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        if isinstance(index, Tensor) and index.dim():
            return standardised(self.pixels[index], self.mean, self.std, self.white)
        return self[torch.tensor([int(index)])][0]

    def __getitems__(self, positions: list[int]) -> list[Tensor]:
        """What torch's data loader asks for, so that it too decodes by the batch."""
        return list(self[torch.tensor(positions)])

    @property
    def stamps(self) -> str:
        """What is read, and from which files, in words that change with them."""
        files = [
            (str(f), f.stat().st_mtime_ns if isinstance(f, Path) else len(f.content))
            for f in self.pixels.files
        ]
        return f"{self} {hashlib.sha256(repr(files).encode()).hexdigest()}"

    def part(self, start: int, stop: int) -> ImageFiles:
        """The files from `start` up to `stop`, counted from the first of them, by paths that hold in any folder."""
        pixels = self.pixels
        keep = pixels.keep_bytes * (stop - start) // max(1, len(self))
        files = [file.absolute() if isinstance(file, Path) else file for file in pixels.files[start:stop]]
        return ImageFiles(files, pixels.frame, self.mean, self.std, keep, scale=255 / self.white)

    def preview(self, position: int) -> Image.Image:
        """The image at a `position` as it is framed, before normalising."""
        return self.pixels.image(position)

    def original(self, position: int) -> Image.Image:
        """The image at a `position` as it is in its file."""
        return read_image(self.pixels.files[position])

    def __str__(self) -> str:
        done = normalisation_in_words(self.mean, self.std)
        return f"{self.pixels.frame}, black to white as 0 to {255 / self.white:g}{done and ', '}{done}"


class MapFiles:
    """Label maps (n, height, width) int64 read from files, their values renamed by a table of 256 entries."""

    def __init__(
        self, files: Sequence[File], frame: Frame, table: Sequence[int], keep_bytes: int = KEEP_BYTES
    ) -> None:
        self.pixels = Pixels(tuple(files), frame, keep_bytes)
        self.table = torch.tensor(table)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        if isinstance(index, Tensor) and index.dim():
            return self.table[self.pixels[index][:, 0].long()]
        return self[torch.tensor([int(index)])][0]


def normalisation_in_words(mean: Sequence[float], std: Sequence[float]) -> str:
    """In words, what was taken out of pixels; nothing where that is nothing."""
    words = {
        "less the mean": mean if any(mean) else (),
        "over the std": std if any(s != 1 for s in std) else (),
    }
    return ", ".join(
        f"{what} {' '.join(f'{v:g}' for v in values)}" for what, values in words.items() if values
    )


def _array(image: Image.Image) -> NDArray[np.uint8]:
    array = np.array(image, dtype=np.uint8)  # a copy: PIL's own memory is read-only
    if array.ndim == 2:
        return array[None]  # (1, height, width)
    return np.ascontiguousarray(array.transpose(2, 0, 1))  # (channels, height, width)


def _positions(index: Tensor, n: int) -> Tensor:
    index = index.cpu()
    if index.dtype == torch.bool:
        return index.nonzero().flatten()
    if len(index) and not -n <= int(index.min()) <= int(index.max()) < n:
        raise IndexError(f"positions {int(index.min())} to {int(index.max())} in a set of {n}")
    return index
