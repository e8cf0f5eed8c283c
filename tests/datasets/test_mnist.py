"""MNIST's format: idx files, gzipped."""

import gzip

import numpy as np
import pytest
import torch
from official_files import idx, write_mnist

from jostle import datasets
from jostle.datasets import DataError


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_reads_what_was_written(tmp_path, name, mean, std):
    arrays = write_mnist(tmp_path / name)
    data = datasets.load(name, tmp_path)
    assert (len(data.train), len(data.test), data.shape, len(data.classes)) == (12, 10, (1, 28, 28), 10)
    pixels = torch.from_numpy(arrays["train-images-idx3-ubyte"]).double() / 255
    torch.testing.assert_close(data.train.inputs[:, 0], ((pixels - mean) / std).float())
    assert data.train.inputs.dtype == torch.float32
    assert data.test.targets.tolist() == list(range(10))
    np.testing.assert_array_equal(np.asarray(data.preview(5)), arrays["train-images-idx3-ubyte"][5])
    assert set(data.checksums) == {f"{stem}.gz" for stem in arrays}


def test_reads_files_that_were_unpacked(tmp_path):
    arrays = write_mnist(tmp_path / "mnist")
    for stem, array in arrays.items():
        (tmp_path / "mnist" / f"{stem}.gz").unlink()
        (tmp_path / "mnist" / stem).write_bytes(idx(array))
    assert len(datasets.load("mnist", tmp_path).train) == 12


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (IMAGES, lambda whole: whole[: len(whole) // 2], "not a whole gzip file"),
        (IMAGES, lambda whole: b"<html>moved</html>", "not a whole gzip file"),
        (IMAGES, lambda whole: whole[:-20] + bytes(12) + whole[-8:], "gzip|idx|promises"),
        (IMAGES, lambda whole: gzip.compress(gzip.decompress(whole)[:-1]), r"9407 values.*28\), 9408"),
        (IMAGES, lambda whole: gzip.compress(b"PK\x03\x04 something"), "with 504b0304, expected 00000803"),
        (IMAGES, lambda whole: gzip.compress(b"\x00\x00"), "begins with 0000, expected 00000803"),
        (LABELS, lambda whole: gzip.compress(idx(np.zeros((12, 28, 28), np.uint8))), "expected 00000801"),
        (LABELS, lambda whole: gzip.compress(idx(np.zeros(11, np.uint8))), "12 images, but .*11 labels"),
        (LABELS, lambda whole: gzip.compress(idx(np.full(12, 10, np.uint8))), "labels run from 10 to 10"),
    ],
)  # fmt: skip
def test_bad_files_are_named(tmp_path, file, content, message):
    write_mnist(tmp_path / "mnist")
    path = tmp_path / "mnist" / file
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(DataError, match=message) as error:
        datasets.load("mnist", tmp_path)
    assert str(path) in str(error.value)
