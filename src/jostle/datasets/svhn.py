"""SVHN, the cropped digits: two .mat files."""

from pathlib import Path

import numpy as np
import torch

from jostle.datasets.data import Data, Split
from jostle.datasets.errors import DataError
from jostle.datasets.fetch import Source, fetch
from jostle.datasets.images import standardised
from jostle.datasets.matlab import read_arrays

URL = "http://ufldl.stanford.edu/housenumbers/"
TRAIN = Source("svhn", "train_32x32.mat", f"{URL}train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373")
TEST = Source("svhn", "test_32x32.mat", f"{URL}test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3")
MEAN, STD = (0.4310, 0.4302, 0.4463), (0.1965, 0.1984, 0.1992)


def svhn(root: Path | None) -> Data:
    """SVHN: 73,257 + 26,032 house-number digits, 32 × 32 colour; downloaded where absent.

    The cropped digits without the extra set. The files say 10 for the digit 0; here it is class 0.
    """
    paths = fetch(root, TRAIN), fetch(root, TEST)
    train, test = (_split(path) for path in paths)
    classes = tuple(str(digit) for digit in range(10))
    return Data("svhn", "classification", train, test, classes, MEAN, STD, sources=paths)


def _split(path: Path) -> Split:
    expected = "expected a MATLAB file with X, uint8 (32, 32, 3, n), and y, labels 1 to 10"
    try:
        mat = read_arrays(path, ("X", "y"))
    except DataError as reason:
        raise DataError(f"{path} cannot be read: {expected} ({reason})") from reason
    if absent := {"X", "y"} - set(mat):
        raise DataError(f"{path} has no {' and no '.join(sorted(absent))}: {expected}")
    pixels, labels = mat["X"], mat["y"].reshape(-1)
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, len(labels)):
        raise DataError(f"{path} has X {pixels.dtype} {pixels.shape} and {len(labels)} labels: {expected}")
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise DataError(f"{path} has labels {labels.min()} to {labels.max()}: {expected}")
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))  # (n, 3, 32, 32)
    targets = torch.from_numpy(labels.astype(np.int64) % 10)
    return Split(standardised(images, MEAN, STD), targets)
