"""The digits that come with scikit-learn: no file, no network."""

import torch

from jostle.datasets.data import Data, Split
from jostle.datasets.images import standardised

TRAIN = 1297  # the first rows; the last 500 are the test set, mostly from other writers
MEAN, STD = (0.3059,), (0.3755,)  # of the training rows, pixels in 0..1


def digits() -> Data:
    """Digits: 1,297 + 500 handwritten digits, 8 × 8 grey, embedded in scikit-learn; the offline default.

    The first 1,297 rows are the training set and the last 500 the test set, in scikit-learn's order.
    """
    from sklearn.datasets import load_digits  # here, because it takes its time

    bunch = load_digits()
    inputs = standardised(torch.from_numpy(bunch.images)[:, None], MEAN, STD, white=16)  # (n, 1, 8, 8)
    targets = torch.from_numpy(bunch.target).long()
    train, test = Split(inputs[:TRAIN], targets[:TRAIN]), Split(inputs[TRAIN:], targets[TRAIN:])
    return Data("digits", "classification", train, test, tuple(map(str, range(10))), MEAN, STD)
