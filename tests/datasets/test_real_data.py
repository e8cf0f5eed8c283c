"""The published files themselves, where the environment variable JOSTLE_DATA says they are."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jostle import datasets
from jostle.datasets import image_sets
from jostle.tasks import TASKS

Find = Callable[..., Path]


def test_mnist(real_data: Find):
    real_data("mnist", "train-images-idx3-ubyte.gz")
    data = datasets.load("mnist")
    assert (len(data.train), len(data.test)) == (60000, 10000)
    assert data.train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.train.targets.bincount().tolist()[:2] == [5923, 6742]
    torch.testing.assert_close(data.train.inputs.mean(), torch.tensor(0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(data.train.inputs.std(), torch.tensor(1.0), atol=1e-3, rtol=0)
    assert {f"sha256:{value}" for value in data.checksums.values()} == set(image_sets.MNIST_SUMS.values())


def test_ames_has_the_published_features_and_the_training_mean_scores_1248_78(real_data: Find):
    real_data("ames", "train.csv")
    data = datasets.load("ames")
    one_hot = [name for name in data.columns if "=" in name]
    categories = {name.split("=")[0] for name in one_hot}
    assert (len(data.columns), len(one_hot), len(categories)) == (215, 182, 27)
    assert (data.shape, len(data.train), len(data.test)) == ((215,), 730, 730)
    guess = data.train.targets.double().mean()
    gaps = (data.test.targets.double() - guess).split(64)  # the published figure goes by batches of 64
    figure = sum(gap.square().mean().sqrt() for gap in gaps) / 730
    assert round(float(figure), 2) == 1248.78
    outputs = [(guess.float().expand(len(part), 1), part) for part in data.test.targets.split(64)]
    assert TASKS["regression"].metrics(outputs)["published"] == pytest.approx(1248.78, abs=0.01)


def test_mrpc(real_data: Find):
    real_data("mrpc", "msr_paraphrase_train.txt")
    data = datasets.load("mrpc")
    assert (len(data.train), len(data.test)) == (4076, 1725)
    assert (int(data.train.targets.sum()), int(data.test.targets.sum())) == (2753, 1147)
    assert data.preview(0).startswith('Amrozi accused his brother, whom he called "the witness"')


def test_camvid(real_data: Find):
    real_data("camvid", "CamVid_240x180_png.zip")
    data = datasets.load("camvid")
    assert (len(data.train), len(data.test), data.shape) == (367, 233, (3, 180, 240))
    assert data.train.targets.unique().tolist() == [*range(11), 255]
    channels = data.train.inputs.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(channels.mean(1), torch.zeros(3).double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(channels.std(1), torch.ones(3).double(), atol=1e-3, rtol=0)
    bands = data.train.targets[:, :20], data.train.targets[:, 150:]
    commonest = [data.classes[int(band.flatten().bincount()[:11].argmax())] for band in bands]
    assert commonest == ["sky", "road"]


def test_caltech101(real_data: Find):
    if not any(real_data("caltech101").iterdir()):
        pytest.skip("caltech101 is empty")
    data = datasets.load("caltech101")
    assert (len(data.classes), data.shape) == (101, (3, 224, 224))
    assert "BACKGROUND_Google" not in data.classes
    assert set(data.train.targets.tolist()) == set(data.test.targets.tolist()) == set(range(101))
    batch = data.train.inputs[torch.arange(0, len(data.train), 50)]
    assert batch.isfinite().all()


@pytest.mark.parametrize(("name", "file", "counts"), [
    ("fashion-mnist", "train-images-idx3-ubyte.gz", (60000, 10000)),
    ("cifar10", "", (50000, 10000)),
    ("cifar100", "", (50000, 10000)),
    ("svhn", "train_32x32.mat", (73257, 26032)),
    ("cityscapes", "leftImg8bit", (2975, 500)),
])  # fmt: skip
def test_sets_that_are_seldom_at_hand(real_data: Find, name, file, counts):
    real_data(name, file)
    data = datasets.load(name)
    assert (len(data.train), len(data.test)) == counts
