"""CIFAR-10 and CIFAR-100: python batches in their folder, or in the official .tar.gz."""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jostle.datasets.archives import members
from jostle.datasets.data import Data, Split
from jostle.datasets.errors import DataError, MissingDataError
from jostle.datasets.fetch import Source, fetch, find
from jostle.datasets.images import standardised
from jostle.datasets.pickles import read_pickle

CIFAR10 = Source(
    "cifar10", "cifar-10-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    "md5:c58f30108f718f92721af3b95e74349a",
)  # fmt: skip
CIFAR100 = Source(
    "cifar100", "cifar-100-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    "md5:eb9058c3a382ffc7106e4002c42a8d85",
)  # fmt: skip
MEAN10, STD10 = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
MEAN100, STD100 = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
CLASSES10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES10 = tuple(f"data_batch_{i}" for i in range(1, 6))

Files = Mapping[str, tuple[str, bytes]]  # name -> where it was found, content


def cifar10(root: Path | None) -> Data:
    """CIFAR-10: 50,000 + 10,000 photographs of 10 things, 32 × 32 colour; downloaded where absent."""
    files, source = _files(root, CIFAR10, "cifar-10-batches-py", (*BATCHES10, "test_batch"))
    train, test = (_split(files, names, "labels", MEAN10, STD10) for names in (BATCHES10, ("test_batch",)))
    return Data("cifar10", "classification", train, test, CLASSES10, MEAN10, STD10, sources=source)


def cifar100(root: Path | None) -> Data:
    """CIFAR-100: 50,000 + 10,000 photographs of 100 things, 32 × 32 colour; downloaded where absent."""
    files, source = _files(root, CIFAR100, "cifar-100-python", ("train", "test", "meta"))
    train, test = (_split(files, (name,), "fine_labels", MEAN100, STD100) for name in ("train", "test"))
    where, content = files["meta"]
    names = _unpickled(where, content, "fine_label_names")["fine_label_names"]
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise DataError(f"{where}: expected a list of words as fine_label_names")
    classes = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)
    return Data("cifar100", "classification", train, test, classes, MEAN100, STD100, sources=source)


def _files(
    root: Path | None, source: Source, folder: str, names: tuple[str, ...]
) -> tuple[Files, tuple[Path, ...]]:
    if local := find(root, source.folder, folder):
        paths = {name: local / name for name in names}
        if absent := [str(path) for path in paths.values() if not path.is_file()]:
            raise MissingDataError(
                f"{local} lacks {', '.join(absent)}: unpack {source.name} from {source.url} again"
            )
        return {name: (str(path), path.read_bytes()) for name, path in paths.items()}, tuple(paths.values())
    archive = fetch(root, source)
    found = {
        PurePath(member.name).name: (str(member), member.content)
        for member in members(archive, lambda path: path.parent.name == folder and path.name in names)
    }
    if absent := [f"{folder}/{name}" for name in names if name not in found]:
        raise DataError(f"{archive} lacks {', '.join(absent)}: expected the archive of {source.url}")
    return found, (archive,)


def _split(
    files: Files, names: tuple[str, ...], labels: str, mean: tuple[float, ...], std: tuple[float, ...]
) -> Split:
    batches = [_batch(*files[name], labels) for name in names]
    pixels = torch.cat([pixels for pixels, _ in batches])  # (n, 3, 32, 32)
    return Split(standardised(pixels, mean, std), torch.cat([targets for _, targets in batches]))


def _batch(where: str, content: bytes, labels: str) -> tuple[Tensor, Tensor]:
    batch = _unpickled(where, content, "data", labels)
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


def _unpickled(where: str, content: bytes, *keys: str) -> dict[str, Any]:
    try:
        loaded = read_pickle(content)
    except Exception as reason:  # a broken pickle can raise almost anything
        raise DataError(f"{where} is not a whole CIFAR python batch: {reason}") from reason
    words = loaded.items() if isinstance(loaded, dict) else ()
    batch = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in words}
    if absent := [key for key in keys if key not in batch]:
        raise DataError(f"{where} has no {' and no '.join(absent)}: expected a CIFAR python batch")
    return batch
