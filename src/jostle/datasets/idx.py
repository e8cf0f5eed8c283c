"""MNIST and its kin: idx files, gzipped or not."""

from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from jostle.datasets.archives import gunzipped
from jostle.datasets.data import Data, Split, check_targets
from jostle.datasets.errors import DataError
from jostle.datasets.fetch import Source, fetch
from jostle.datasets.images import standardised

MOST_BYTES = 2**30  # of one file, unpacked; 20 times what MNIST has
PARTS = {"train": "train", "test": "t10k"}
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
MNIST_SUMS = {
    "train-images-idx3-ubyte": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
FASHION_SUMS = {
    "train-images-idx3-ubyte": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "md5:bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "md5:bb300cfdad3c16e7a12a480ee83cd310",
}
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def mnist(root: Path | None) -> Data:
    """MNIST: 60,000 + 10,000 handwritten digits, 28 × 28 grey; downloaded where absent."""
    digits = tuple(str(digit) for digit in range(10))
    return _idx_set(root, "mnist", MNIST, MNIST_SUMS, (0.1307,), (0.3081,), digits)


def fashion_mnist(root: Path | None) -> Data:
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing, 28 × 28 grey; downloaded where absent."""
    return _idx_set(root, "fashion-mnist", FASHION, FASHION_SUMS, (0.2860,), (0.3530,), CLOTHES)


def _idx_set(
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
    splits = {
        part: _split(
            paths[f"{stem}-images-idx3-ubyte"], paths[f"{stem}-labels-idx1-ubyte"], mean, std, len(classes)
        )
        for part, stem in PARTS.items()
    }
    sources = tuple(paths.values())
    return Data(name, "classification", splits["train"], splits["test"], classes, mean, std, sources=sources)


def _split(
    images: Path, labels: Path, mean: tuple[float, ...], std: tuple[float, ...], classes: int
) -> Split:
    pixels, targets = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(targets):
        raise DataError(f"{images} has {len(pixels)} images, but {labels} has {len(targets)} labels")
    check_targets(str(labels), "classification", torch.from_numpy(targets), classes)
    inputs = standardised(torch.from_numpy(pixels)[:, None], mean, std)  # (n, 1, height, width)
    return Split(inputs, torch.from_numpy(targets).long())


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes with this many dimensions."""
    content = _content(path)
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


def _content(path: Path) -> bytes:
    return gunzipped(path, MOST_BYTES) if path.suffix == ".gz" else path.read_bytes()
