"""CIFAR's python batches, in a folder or in the archive."""

import os
import pickle

import numpy as np
import pytest
import torch
from official_files import cifar10_files, cifar100_files, python2_batch, tar_gz, write_files

from jostle import datasets
from jostle.datasets import DataError, MissingDataError, binary_files

FOLDER10, FOLDER100 = "cifar-10-batches-py", "cifar-100-python"


def put(tmp_path, form: str) -> None:
    files = {10: cifar10_files(), 100: cifar100_files()}
    if form == "folder":
        write_files(tmp_path / "cifar10" / FOLDER10, files[10])
        write_files(tmp_path / "cifar100" / FOLDER100, files[100])
        return
    for count, folder in ((10, FOLDER10), (100, FOLDER100)):
        inside = {f"{folder}/{name}": content for name, content in files[count].items()}
        write_files(tmp_path / f"cifar{count}", {f"cifar-{count}-python.tar.gz": tar_gz(inside)})


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_cifar10_reads_what_was_written(tmp_path, form):
    put(tmp_path, form)
    data = datasets.load("cifar10", tmp_path)
    assert (len(data.train), len(data.test), data.shape) == (20, 4, (3, 32, 32))
    assert data.train.targets.tolist() == [(i + j) % 10 for i in range(5) for j in range(4)]
    pixels = np.random.default_rng(1).integers(0, 256, (4, 3072), dtype=np.uint8)[
        2
    ]  # third row of the second batch
    shown = np.asarray(data.preview(6))
    np.testing.assert_array_equal(shown, pixels.reshape(3, 32, 32).transpose(1, 2, 0))
    expected = (pixels.reshape(3, 32, 32)[0] / 255 - 0.4914) / 0.2023
    np.testing.assert_allclose(data.train.inputs[6, 0].numpy(), expected, atol=1e-5)
    assert data.classes[3] == "cat"


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_cifar100_takes_fine_labels_and_their_names(tmp_path, form):
    put(tmp_path, form)
    data = datasets.load("cifar100", tmp_path)
    assert data.train.targets.tolist() == [99, 98, 97, 96, 95]
    assert (len(data.classes), data.classes[42], len(data.test)) == (100, "thing 42", 5)
    torch.testing.assert_close(data.black[2], -0.4408 / 0.2761)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


class Told:
    """An object that is pickled as numpy pickles one, whatever it says."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def forged(state, name="V16", shape=(2,), content=b"A" * 32) -> bytes:
    kind = Told(np.dtype, (name, False, True), state) if state else np.dtype(name)
    array = Told(np.zeros(1).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, shape, kind, False, content))
    return pickle.dumps({"data": array, "labels": [0, 1]}, protocol=2)


def test_one_pickle_cannot_spoil_the_next(tmp_path):
    # BUILD with a pair of states sets attributes, here the defaults of the function that stands for an encoder
    spoiling = b"\x80\x02c_codecs\nencode\nN}X\x0c\x00\x00\x00__defaults__K\x05\x85s\x86b."
    write_files(tmp_path / "cifar10" / FOLDER10, cifar10_files() | {"data_batch_1": spoiling})
    with pytest.raises(DataError, match="has no data and no labels"):
        datasets.load("cifar10", tmp_path)
    assert binary_files._encode_latin1.__defaults__ is None
    write_files(tmp_path / "cifar10" / FOLDER10, cifar10_files())
    assert len(datasets.load("cifar10", tmp_path).train) == 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (cifar10_files()["test_batch"][:1000], "not a whole CIFAR python batch"),
        (b"hello", "not a whole CIFAR python batch"),
        (pickle.dumps([1, 2]), "no data and no labels"),
        (python2_batch({"data": np.zeros((2, 3072), np.uint8)}), "no labels"),
        (python2_batch({"data": np.zeros((2, 30), np.uint8), "labels": [0, 1]}), r"pixels uint8 \(2, 3072\)"),
        (python2_batch({"data": np.zeros((2, 3072)), "labels": [0, 1]}), r"an array of f8; expected bytes \(uint8\)"),
        (python2_batch({"data": np.zeros((3, 3072), np.uint8), "labels": [0, 1]}), "for its 2 labels"),
        (pickle.dumps(Evil()), "asks for posix.mkdir|asks for nt.mkdir"),
        (forged((3, "|", None, ("a",), {"a": 5}, 16, 8, 0)), "an array of V16; expected bytes"),
        (forged((3, "|", None, ("a",), {}, 16, 8, 0)), "an array of V16; expected bytes"),
        (b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.", "200000 tuples"),  # a key nested so deep
        (forged(None, "u1", (2**40,)), "whose bytes do not fit"),
        (forged(None, "u1", (-2, -16)), "whose bytes do not fit"),
        (forged(None, "u1", (32,), b"x" * 31), "whose bytes do not fit"),
        (pickle.dumps({"data": b"", "labels": [[0]]}), "list of class numbers as labels"),
        (pickle.dumps({"data": b"", "labels": [10**30]}), "list of class numbers as labels"),
        (pickle.dumps({"data": b"", "labels": 5}), "list of class numbers as labels"),
    ],
)  # fmt: skip
def test_bad_batches_are_named(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path / "cifar10" / FOLDER10, cifar10_files() | {"test_batch": content})
    with pytest.raises(DataError, match=message) as error:
        datasets.load("cifar10", tmp_path)
    assert str(tmp_path / "cifar10" / FOLDER10 / "test_batch") in str(error.value)
    assert not (tmp_path / "made-by-a-pickle").exists()


def test_a_folder_that_lacks_a_batch(tmp_path):
    files = cifar10_files()
    del files["data_batch_4"]
    write_files(tmp_path / "cifar10" / FOLDER10, files)
    with pytest.raises(MissingDataError, match=r"lacks .*data_batch_4"):
        datasets.load("cifar10", tmp_path)
