"""Images that fit in memory, image files that are decoded batch by batch, and folders: Caltech101 and a user's own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from jostle.datasets.binary_files import Cropped, Frame, make_frame, read_image, to_eight_bits
from jostle.datasets.data import Data, Split, hold_out
from jostle.datasets.fetch import (
    DataError,
    File,
    Source,
    archive_members,
    fetch,
    find,
    homes,
    is_archive,
    path_in,
)
from jostle.utils.files import is_hidden, is_image
from jostle.utils.names import cached_property, printable

CALTECH101 = Source(
    "caltech101", "caltech-101.zip", "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
    "md5:3138e1922a9193bfa496528edbbc45d0",
)  # fmt: skip
CATEGORIES = "101_ObjectCategories"

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


def per_channel(name: str, value: float | Sequence[float], mode: str) -> tuple[float, ...]:
    """Return a setting as one number for each channel of images of a mode, "RGB" or "L"."""
    values = (float(value),) * len(mode) if isinstance(value, int | float) else tuple(value)
    if len(values) != len(mode):
        raise DataError(f"{name} has {len(values)} numbers, but images have {len(mode)} channels (mode)")
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
        positions = torch.arange(len(self))[index.cpu()]
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
        with ThreadPoolExecutor(min(THREADS, len(positions))) as workers:
            arrays = [_array(image) for image in workers.map(self.image, positions)]
        for position, array in zip(positions, arrays, strict=True):
            if array.shape != self.shape:
                raise DataError(
                    f"{self.files[position]} has shape {array.shape}, {self.files[0]} has {self.shape}: "
                    "give a size, so that images can share a batch, as in folder:PATH(size=224)"
                )
        return torch.from_numpy(np.stack(arrays))


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
        files = [
            file.absolute() if isinstance(file, Path) else file for file in self.pixels.files[start:stop]
        ]
        return self._with_files(files, self.pixels.keep_bytes * (stop - start) // max(1, len(self)))

    def take(self, positions: Tensor) -> ImageFiles:
        """Return some of the files, by their positions."""
        files = self.pixels.files
        return self._with_files([files[position] for position in positions.tolist()], self.pixels.keep_bytes)

    def _with_files(self, files: Sequence[File], keep: int) -> ImageFiles:
        return ImageFiles(files, self.pixels.frame, self.mean, self.std, keep, scale=255 / self.white)

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
    words = []
    if any(mean):
        words.append("less the mean " + " ".join(f"{v:g}" for v in mean))
    if any(s != 1 for s in std):
        words.append("over the std " + " ".join(f"{v:g}" for v in std))
    return ", ".join(words)


def _array(image: Image.Image) -> NDArray[np.uint8]:
    array = np.array(image, dtype=np.uint8)  # a copy: PIL's own memory is read-only
    if array.ndim == 2:
        return array[None]  # (1, height, width)
    return np.ascontiguousarray(array.transpose(2, 0, 1))  # (channels, height, width)


Groups = Mapping[str, Sequence[File]]  # class -> its files
Constants = tuple[tuple[float, ...], tuple[float, ...]]  # mean, std


def caltech101(root: Path | None, size: int = 224, short: int = 256) -> Data:
    """Caltech101: 8,677 photographs of 101 things, at 224 × 224; downloaded where absent.

    Without the background folder. In each class, the fifth of the files whose names have the smallest sha256
    are for testing. Normalized with ImageNet's mean and std.

    Args:
        root: Folder of local copies.
        size: The side of the square that is cut out of the middle, in pixels.
        short: Length of the short side before that, in pixels.
    """
    homes_here = (home for home in homes(root, "caltech101") if home.is_dir())
    files = (file for home in homes_here for file in sorted(home.iterdir()))
    archives = (file for file in files if is_archive(file.name) and "101" in file.name)
    local = find(root, "caltech101", CATEGORIES, f"caltech-101/{CATEGORIES}") or next(archives, None)
    source = local or fetch(root, CALTECH101)
    groups = _class_folders(source) if source.is_dir() else dict[str, list[File]]()
    if not source.is_dir():
        for member in sorted(archive_members(source, is_image), key=path_in):
            groups.setdefault(printable(path_in(member).parent.name), []).append(member)
    groups.pop("BACKGROUND_Google", None)  # clutter, not a class
    if not groups:
        raise DataError(
            f"{source} holds no images: expected {CATEGORIES} with a folder of JPEGs for each class"
        )
    return _image_data("caltech101", *_hold_out(groups, 0.2), Cropped(size, short), IMAGENET, source)


def folder(
    path: Path,
    size: int | Sequence[int] | None = None,
    test: float | None = 0.2,
    mode: Literal["RGB", "L"] = "RGB",
    scale: float = 1,
    mean: float | Sequence[float] = 0,
    std: float | Sequence[float] = 1,
    short: int | None = None,
    classes: Sequence[str] | None = None,
) -> Data:
    """A folder of your own images: a folder for each class, or images alone as a pool without labels.

    With folders `train` and `test` in it, these are the splits.

    Args:
        path: The folder.
        size: A pair (height, width) stretches; a number is the side of the square that is cut out of the middle; None:
            images keep their size.
        test: The share of each class that is held out, by name; None: nothing is, and all images there are taken.
        mode: "RGB" for three channels, "L" for one.
        scale: The value of white, black being 0: 1, or 255 for a network that takes bytes.
        mean: Subtracted from the pixels after that, one number or one for each channel.
        std: The pixels are divided by it then, one number or one for each channel.
        short: Length of the short side before the square is cut out; None: `size` itself.
        classes: The classes in the order of the model's outputs; None: by name.
    """
    if not path.is_dir():
        raise DataError(f"folder:{path} is not a folder")
    train, held = _own_groups(path, test)
    constants = per_channel("mean", mean, mode), per_channel("std", std, mode)
    frame = make_frame(size, short, mode)
    return _image_data(printable(f"folder:{path}"), train, held, frame, constants, path, scale, classes)


def _own_groups(path: Path, test: float | None) -> tuple[Groups, Groups]:
    """Return images to learn from and to test on, by class; images alone have the class ""."""
    if (path / "train").is_dir() and (path / "test").is_dir():
        groups, held = _class_folders(path / "train"), _class_folders(path / "test")
        if test is not None:
            return groups, held
        alone = list[Path]()
        groups = {label: [*groups.get(label, ()), *held.get(label, ())] for label in sorted({*groups, *held})}
    else:
        alone = sorted(file for file in path.iterdir() if is_image(file) and file.is_file())
        groups = _class_folders(path)
    if not alone and not groups:
        raise DataError(f"{path} holds no images, neither alone nor in folders")
    if alone and groups and test is not None:
        raise DataError(
            f"{path} holds both images ({alone[0].name}) and folders of images ({min(groups)}): "
            "keep a folder for each class, or images alone"
        )
    if alone:
        return {"": sorted([*alone, *(file for files in groups.values() for file in files)], key=path_in)}, {}
    return _hold_out(groups, test)


def _class_folders(path: Path) -> dict[str, list[File]]:
    groups: dict[str, list[File]] = {}
    for entry in sorted(path.iterdir()):
        inside = entry.rglob("*") if entry.is_dir() and not is_hidden(entry.name) else ()
        shown = (file for file in inside if not any(map(is_hidden, file.relative_to(entry).parts)))
        if files := sorted(file for file in shown if is_image(file) and file.is_file()):
            groups.setdefault(printable(entry.name), []).extend(files)
    return groups


def _hold_out(groups: Groups, fraction: float | None) -> tuple[Groups, Groups]:
    train, test = {}, {}
    for label, files in groups.items():
        kept, held = hold_out([printable(f"{label}/{path_in(file).name}") for file in files], fraction)
        train[label], test[label] = ([files[i] for i in part.tolist()] for part in (kept, held))
    return train, test


def _image_data(
    name: str,
    train: Groups,
    test: Groups,
    frame: Frame,
    constants: Constants,
    source: Path,
    scale: float = 1,
    order: Sequence[str] | None = None,
) -> Data:
    found = {*train, *test} - {""}
    classes = tuple(order) if found and order is not None else tuple(sorted(found))  # some may have no image
    if more := sorted(found - {*classes}):
        raise DataError(f"{source} has a folder {more[0]} that is not among classes {list(classes)}")
    mean, std = constants

    def name_in_source(file: File) -> str:
        inside = path_in(file)
        found = inside.relative_to(source) if isinstance(file, Path) else PurePath(*inside.parts[-2:])
        return printable(found.as_posix())

    def split(groups: Groups) -> Split:
        files = [(file, label) for label, group in groups.items() for file in group]
        targets = torch.tensor([classes.index(label) for _, label in files if label], dtype=torch.int64)
        inputs = ImageFiles([file for file, _ in files], frame, mean, std, scale=scale)
        return Split(inputs, targets, tuple(name_in_source(file) for file, _ in files))

    task = "classification" if classes else None
    return Data(name, task, split(train), split(test), classes, mean, std, sources=(source,))
