"""Folders of images: Caltech101, and a user's own."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from jostle.datasets.data import Data, Split
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
from jostle.datasets.images import IMAGENET, ImageFiles, per_channel
from jostle.datasets.pictures import Cropped, Frame, make_frame
from jostle.utils.files import is_hidden, is_image
from jostle.utils.names import printable

CALTECH101 = Source(
    "caltech101", "caltech-101.zip", "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
    "md5:3138e1922a9193bfa496528edbbc45d0",
)  # fmt: skip
CATEGORIES = "101_ObjectCategories"
BACKGROUND = "BACKGROUND_Google"  # clutter, not a class

Groups = Mapping[str, Sequence[File]]  # class -> its files
Constants = tuple[tuple[float, ...], tuple[float, ...]]  # mean, std


def hold_out(names: Sequence[str], fraction: float | None) -> tuple[Tensor, Tensor]:
    """Return positions that stay, and those of the given fraction of names whose sha256 is smallest; none for None.

    They are equal on every machine and in every version, and one name more or less changes little.
    """
    if fraction is not None and not 0 <= fraction < 1:
        raise DataError(f"the test fraction must be from 0 to below 1, not {fraction}")
    order = sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    held = torch.zeros(len(names), dtype=torch.bool)
    held[order[: round(len(names) * (fraction or 0))]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def caltech101(root: Path | None, size: int = 224, short: int = 256) -> Data:
    """Caltech101: 8,677 photographs of 101 things, at 224 × 224; downloaded where absent.

    Without the background folder. In each class, the fifth of the files whose names have the smallest sha256
    are for testing. Normalized with ImageNet's mean and std.

    Args:
        root: Folder of local copies.
        size: The side of the square that is cut out of the middle, in pixels.
        short: Length of the short side before that, in pixels.
    """
    local = find(root, "caltech101", CATEGORIES, f"caltech-101/{CATEGORIES}")
    source = local or _caltech_archive(root) or fetch(root, CALTECH101)
    found = _class_folders(source) if source.is_dir() else _archived_folders(source)
    groups = {name: files for name, files in found.items() if name != BACKGROUND}
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
    channels = {"L": 1, "RGB": 3}[mode]
    constants = per_channel("mean", mean, channels), per_channel("std", std, channels)
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
        alone, groups = _images(path.iterdir()), _class_folders(path)
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


def _caltech_archive(root: Path | None) -> Path | None:
    there = (home for home in homes(root, "caltech101") if home.is_dir())
    files = (file for home in there for file in sorted(home.iterdir()))
    return next((file for file in files if is_archive(file.name) and "101" in file.name), None)


def _images(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if is_image(path) and path.is_file())


def _class_folders(path: Path) -> dict[str, list[File]]:
    groups: dict[str, list[File]] = {}
    for entry in sorted(path.iterdir()):
        if is_hidden(entry.name) or not entry.is_dir():
            continue
        inside = (file for file in entry.rglob("*") if not any(map(is_hidden, file.relative_to(entry).parts)))
        if files := _images(inside):
            groups.setdefault(printable(entry.name), []).extend(files)
    return groups


def _archived_folders(archive: Path) -> dict[str, list[File]]:
    groups: dict[str, list[File]] = {}
    for member in sorted(archive_members(archive, is_image), key=path_in):
        groups.setdefault(printable(path_in(member).parent.name), []).append(member)
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
    classes = _classes({*train, *test} - {""}, order, source)
    mean, std = constants

    def split(groups: Groups) -> Split:
        files = [(file, label) for label, group in groups.items() for file in group]
        targets = torch.tensor([classes.index(label) for _, label in files if label], dtype=torch.int64)
        inputs = ImageFiles([file for file, _ in files], frame, mean, std, scale=scale)
        return Split(inputs, targets, tuple(_name(file, source) for file, _ in files))

    task = "classification" if classes else None
    return Data(name, task, split(train), split(test), classes, mean, std, sources=(source,))


def _classes(found: Set[str], order: Sequence[str] | None, source: Path) -> tuple[str, ...]:
    """Return the classes in alphabetical order, or in the order given, which may name some that have no image."""
    if not found or order is None:
        return tuple(sorted(found))
    if more := sorted(found - set(order)):
        raise DataError(f"{source} has a folder {more[0]} that is not among classes {list(order)}")
    return tuple(order)


def _name(file: File, source: Path) -> str:
    whole = (
        file.relative_to(source).as_posix() if isinstance(file, Path) else "/".join(path_in(file).parts[-2:])
    )
    return printable(whole)
