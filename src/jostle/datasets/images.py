"""Images: normalizing those that fit in memory, and decoding files batch by batch where they do not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from jostle.datasets.fetch import DataError, File
from jostle.datasets.pictures import Frame, read_image, to_eight_bits
from jostle.utils.names import cached_property

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KEEP_BYTES = 2**31  # decoded images of a whole split are kept when they fit into this
THREADS = min(8, os.cpu_count() or 1)  # decoding leaves Python's lock, so threads do help


def standardize(pixels: Tensor, mean: Sequence[float], std: Sequence[float], white: float = 255) -> Tensor:
    """Standardize pixels (n, channels, height, width) from 0 to `white`: divide, subtract mean, divide by std."""
    values = pixels.to(torch.float32, copy=True).div_(white)
    shift, scale = (
        torch.tensor(v, dtype=torch.float32, device=pixels.device).view(-1, 1, 1) for v in (mean, std)
    )
    return values.sub_(shift).div_(scale)


def per_channel(name: str, value: float | Sequence[float], channels: int) -> tuple[float, ...]:
    """Return a setting as one number for each channel of images."""
    values = (float(value),) * channels if isinstance(value, int | float) else tuple(value)
    if len(values) != channels:
        raise DataError(f"{name} has {len(values)} numbers, but images have {channels} channels (mode)")
    return values


@dataclass(frozen=True, eq=False)
class Pixels:
    """Image files as one uint8 tensor that is decoded when it is read.

    Decoded images are kept if all of them fit into `keep_bytes`, so that later epochs index a tensor.
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
        """Return one framed image."""
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


class ImageFiles:
    """Image files as normalized float32 batches (n, channels, height, width), or one by one.

    Args:
        files: Paths, or members of archives.
        frame: Crops or stretches each image.
        mean: Subtracted from each channel, of pixels in 0..1.
        std: Each channel is divided by it then.
        keep_bytes: Decoded images are kept if all of them fit into so many bytes.
        scale: The value of white, before mean and std are applied.
    """

    by_batch = True

    def __init__(
        self,
        files: Sequence[File],
        frame: Frame,
        mean: Sequence[float] = IMAGENET[0],
        std: Sequence[float] = IMAGENET[1],
        keep_bytes: int = KEEP_BYTES,
        scale: float = 1,
    ) -> None:
        self.pixels, self.mean, self.std = Pixels(tuple(files), frame, keep_bytes), tuple(mean), tuple(std)
        self.white = 255 / scale

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        if isinstance(index, Tensor) and index.dim():
            return standardize(self.pixels[index], self.mean, self.std, self.white)
        return self[torch.tensor([int(index)])][0]

    def __getitems__(self, positions: list[int]) -> list[Tensor]:
        """Return some images to torch's data loader, which decodes by the batch too."""
        return list(self[torch.tensor(positions)])

    def originals(self, positions: Sequence[int]) -> Iterator[Image.Image]:
        """The images at some positions, just as they are in their files."""
        with ThreadPoolExecutor(max(1, min(THREADS, len(positions)))) as workers:
            yield from workers.map(read_image, [self.pixels.files[position] for position in positions])

    @property
    def stamps(self) -> str:
        """Description of the files and their framing that changes with them."""
        files = [
            (str(f), f.stat().st_mtime_ns if isinstance(f, Path) else len(f.content))
            for f in self.pixels.files
        ]
        return f"{self} {hashlib.sha256(repr(files).encode()).hexdigest()}"

    def part(self, start: int, stop: int) -> ImageFiles:
        """Return the files from `start` up to `stop`, counted from the first of them, by absolute paths."""
        pixels = self.pixels
        keep = pixels.keep_bytes * (stop - start) // max(1, len(self))
        files = [file.absolute() if isinstance(file, Path) else file for file in pixels.files[start:stop]]
        return ImageFiles(files, pixels.frame, self.mean, self.std, keep, scale=255 / self.white)

    def take(self, positions: Tensor) -> ImageFiles:
        """Return some of the files, by their positions."""
        pixels = self.pixels
        files = [pixels.files[position] for position in positions.tolist()]
        return ImageFiles(files, pixels.frame, self.mean, self.std, pixels.keep_bytes, scale=255 / self.white)

    def preview(self, position: int) -> Image.Image:
        """The image at a `position` as it is framed, before normalizing."""
        return self.pixels.image(position)

    def original(self, position: int) -> Image.Image:
        """The image at a `position` as people see its file, neither cropped nor resized."""
        return read_image(self.pixels.files[position], to_eight_bits)

    def __str__(self) -> str:
        done = normalization_in_words(self.mean, self.std)
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


def normalization_in_words(mean: Sequence[float], std: Sequence[float]) -> str:
    """Return the mean and std of a normalization in words; empty if it changes nothing."""
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
