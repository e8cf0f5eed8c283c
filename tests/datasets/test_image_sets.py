"""Digits, MNIST, CIFAR, SVHN, Cityscapes and CamVid in the formats in which they are published, also when damaged."""

import contextlib
import gzip
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from official_files import (
    cifar10_files,
    cifar100_files,
    idx,
    picture,
    python2_batch,
    tar_gz,
    write_camvid,
    write_cityscapes,
    write_files,
    write_mnist,
    write_svhn,
)  # fmt: skip
from PIL import Image
from scipy.io import loadmat, savemat
from sklearn.datasets import load_digits

from jostle import datasets
from jostle.datasets import DataError, MissingDataError, binary_files
from jostle.datasets.binary_files import read_matlab

FOLDER10, FOLDER100 = "cifar-10-batches-py", "cifar-100-python"
IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def test_digits():
    data = datasets.load("digits")
    bunch = load_digits()
    assert (len(data.train), len(data.test), data.shape, data.outputs) == (1297, 500, (1, 8, 8), 10)
    assert data.train.targets.tolist() + data.test.targets.tolist() == bunch.target.tolist()
    torch.testing.assert_close(data.train.inputs.mean(), torch.tensor(0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(data.train.inputs.std(), torch.tensor(1.0), atol=1e-3, rtol=0)
    shown = np.asarray(data.preview(7)).astype(float)
    np.testing.assert_allclose(shown, bunch.images[7] * 255 / 16, atol=0.5001)
    assert min(np.bincount(data.test.targets)) >= 46  # every digit is tested


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_mnist_reads_what_was_written(tmp_path, name, mean, std):
    arrays = write_mnist(tmp_path / name)
    data = datasets.load(name, tmp_path)
    assert (len(data.train), len(data.test), data.shape, len(data.classes)) == (12, 10, (1, 28, 28), 10)
    pixels = torch.from_numpy(arrays["train-images-idx3-ubyte"]).double() / 255
    torch.testing.assert_close(data.train.inputs[:, 0], ((pixels - mean) / std).float())
    assert data.train.inputs.dtype == torch.float32
    assert data.test.targets.tolist() == list(range(10))
    np.testing.assert_array_equal(np.asarray(data.preview(5)), arrays["train-images-idx3-ubyte"][5])
    assert set(data.checksums) == {f"{stem}.gz" for stem in arrays}


def test_mnist_reads_files_that_were_unpacked(tmp_path):
    arrays = write_mnist(tmp_path / "mnist")
    for stem, array in arrays.items():
        (tmp_path / "mnist" / f"{stem}.gz").unlink()
        (tmp_path / "mnist" / stem).write_bytes(idx(array))
    assert len(datasets.load("mnist", tmp_path).train) == 12


def put_cifar(tmp_path, form: str) -> None:
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
    put_cifar(tmp_path, form)
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
    put_cifar(tmp_path, form)
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


def mat(**arrays) -> bytes:
    whole = io.BytesIO()
    savemat(whole, arrays)
    return whole.getvalue()


NOT_MATLAB = "cannot be read: expected a MATLAB file"
BAD_IDX = [
    (IMAGES, lambda whole: whole[: len(whole) // 2], "not a whole gzip file"),
    (IMAGES, lambda whole: b"<html>moved</html>", "not a whole gzip file"),
    (IMAGES, lambda whole: whole[:-20] + bytes(12) + whole[-8:], "gzip|idx|promises"),
    (IMAGES, lambda whole: gzip.compress(gzip.decompress(whole)[:-1]), r"9407 values.*28\), 9408"),
    (IMAGES, lambda whole: gzip.compress(b"PK\x03\x04 something"), "with 504b0304, expected 00000803"),
    (IMAGES, lambda whole: gzip.compress(b"\x00\x00"), "begins with 0000, expected 00000803"),
    (LABELS, lambda whole: gzip.compress(idx(np.zeros((12, 28, 28), np.uint8))), "expected 00000801"),
    (LABELS, lambda whole: gzip.compress(idx(np.zeros(11, np.uint8))), "12 images, but .*11 labels"),
    (LABELS, lambda whole: gzip.compress(idx(np.full(12, 10, np.uint8))), "labels run from 10 to 10"),
]  # fmt: skip
BAD_BATCHES = [
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
]  # fmt: skip
BAD_MATLAB = [
    (lambda whole: whole[:2000], NOT_MATLAB),
    (b"not matlab", NOT_MATLAB),
    (b"", NOT_MATLAB),
    (mat(X=np.zeros((32, 32, 3, 2), np.uint8)), "has no y"),
    (mat(X=np.zeros((2, 32, 32, 3), np.uint8), y=[1, 2]), r"has X uint8 \(2, 32, 32, 3\)"),
    (mat(X=np.zeros((32, 32, 3, 2)), y=[1, 2]), "has X float64"),
    (mat(X=np.zeros((32, 32, 3, 2), np.uint8), y=[0, 11]), "labels 0 to 11"),
]


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        *(("mnist", *case) for case in BAD_IDX),
        *(("cifar10", f"{FOLDER10}/test_batch", *case) for case in BAD_BATCHES),
        *(("svhn", "test_32x32.mat", *case) for case in BAD_MATLAB),
    ],
)
def test_bad_files_are_named(tmp_path, monkeypatch, name, file, content, message):
    monkeypatch.chdir(tmp_path)
    write_mnist(tmp_path / "mnist")
    put_cifar(tmp_path, "folder")
    write_svhn(tmp_path / "svhn")
    path = tmp_path / name / file
    path.write_bytes(content(path.read_bytes()) if callable(content) else content)
    with pytest.raises(DataError, match=message) as error:
        datasets.load(name, tmp_path)
    assert str(path) in str(error.value)
    assert not (tmp_path / "made-by-a-pickle").exists()


def test_a_folder_that_lacks_a_batch(tmp_path):
    files = cifar10_files()
    del files["data_batch_4"]
    write_files(tmp_path / "cifar10" / FOLDER10, files)
    with pytest.raises(MissingDataError, match=r"lacks .*data_batch_4"):
        datasets.load("cifar10", tmp_path)


def test_svhn_reads_what_was_written(tmp_path):
    pixels = write_svhn(tmp_path / "svhn")
    data = datasets.load("svhn", tmp_path)
    assert data.train.targets.tolist() == [0, 1, 2, 9, 0]  # the files say 10 for the digit 0
    assert data.test.targets.tolist() == [5, 0]
    np.testing.assert_array_equal(np.asarray(data.preview(3)), pixels["train"][..., 3])
    np.testing.assert_allclose(
        data.test.inputs[1, 2], (pixels["test"][:, :, 2, 1] / 255 - 0.4463) / 0.1992, atol=1e-5
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i4", "f4", "f8", "i8"])
def test_arrays_are_what_scipy_reads(tmp_path, packed, kind):
    arrays = {
        "one": np.arange(24).reshape(2, 3, 4).astype(kind),
        "y": np.array([[3]], kind),  # so small that it lies in its tag
        "none": np.zeros((0, 3), kind),
        "words": "text",
        "other": np.ones(5),
    }
    savemat(tmp_path / "a.mat", arrays, do_compression=packed)
    names = ("one", "y", "none", "absent")
    found, expected = (
        read_matlab(tmp_path / "a.mat", names),
        loadmat(tmp_path / "a.mat", variable_names=names),
    )
    assert found.keys() == {"one", "y", "none"}
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


def test_damage_is_an_error_and_never_a_crash(tmp_path):
    write_svhn(tmp_path)
    path, rng = tmp_path / "test_32x32.mat", np.random.default_rng(0)
    whole = path.read_bytes()
    for _ in range(300):
        spoilt = bytearray(whole)
        for place in rng.integers(0, 400, 3):  # headers, names, types and shapes
            spoilt[place] = rng.integers(256)
        path.write_bytes(spoilt[: rng.integers(1, len(spoilt))] if rng.random() < 0.3 else spoilt)
        with contextlib.suppress(DataError):
            read_matlab(path, ("X", "y"))


# every id that the label files use, in rows of 7; 34 rows fill the last
IDS = np.arange(35, dtype=np.uint8).reshape(5, 7)
# the official table of training ids, written out
TRAIN_IDS = {
    7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11, 25: 12, 26: 13,
    27: 14, 28: 15, 31: 16, 32: 17, 33: 18,
}  # fmt: skip


def test_cityscapes_reads_what_was_written(tmp_path):
    write_cityscapes(tmp_path / "cityscapes", IDS, {"train": 3, "val": 2})
    data = datasets.load("cityscapes", tmp_path)
    assert (data.task, len(data.train), len(data.test), len(data.classes)) == ("segmentation", 3, 2, 19)
    maps = data.train.targets[torch.tensor([2, 0])]
    expected = torch.tensor([TRAIN_IDS.get(i, 255) for i in range(35)]).view(5, 7)
    torch.testing.assert_close(maps, expected.expand(2, 5, 7))
    batch = data.train.inputs[torch.tensor([2, 0])]
    scene = np.asarray(picture(5, 7, seed=2))
    np.testing.assert_allclose(batch[0, 1], (scene[..., 1] / 255 - 0.3281) / 0.1866, atol=1e-5)
    assert (data.classes[0], data.classes[13], data.classes[18]) == ("road", "car", "bicycle")
    assert data.names(1) == "ulm/ulm_000001_000019"
    np.testing.assert_array_equal(np.asarray(data.preview(2)), scene)


def test_cityscapes_without_a_map_or_a_part(tmp_path):
    root = tmp_path / "cityscapes"
    write_cityscapes(root, IDS, {"train": 2, "val": 1})
    gone = root / "gtFine" / "train" / "ulm" / "ulm_000001_000019_gtFine_labelIds.png"
    gone.unlink()
    with pytest.raises(DataError, match=r"ulm_000001_000019_gtFine_labelIds.png is missing \(and 0 more\)"):
        datasets.load("cityscapes", tmp_path)
    Image.fromarray(IDS).save(gone)
    for scene in (root / "leftImg8bit" / "val" / "ulm").iterdir():
        scene.unlink()
    with pytest.raises(DataError, match=r"val holds no scenes, expected <city>/<name>_leftImg8bit.png"):
        datasets.load("cityscapes", tmp_path)


def put_camvid(root, form: str) -> None:
    folder = root / ("camvid" if form == "folder" else "scratch") / "CamVid"
    write_camvid(folder, {"train": 3, "val": 1, "test": 2})
    if form == "zip":
        (root / "camvid").mkdir()
        with zipfile.ZipFile(root / "camvid" / "CamVid_240x180_png.zip", "w") as archive:
            for path in folder.rglob("*.png"):
                archive.write(path, f"CamVid/{path.relative_to(folder).as_posix()}")


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_camvid_reads_what_was_written(tmp_path, form):
    put_camvid(tmp_path, form)
    data = datasets.load("camvid", tmp_path, size=None)
    assert (data.task, len(data.train), len(data.test), len(data.classes)) == ("segmentation", 3, 2, 11)
    expected = (torch.arange(48) + 1) % 12
    expected[expected == 11] = 255
    torch.testing.assert_close(data.train.targets[1], expected.view(6, 8))
    scene = np.asarray(picture(6, 8, seed=1))
    np.testing.assert_array_equal(np.asarray(data.preview(1)), scene)
    assert isinstance(data.train.inputs, torch.Tensor)
    assert data.train.inputs.dtype == torch.float32
    assert data.names(1) == "scene_1.png"
    assert len(datasets.load("camvid", tmp_path, size=None, part="val").test) == 1


def test_camvid_with_too_few_maps_or_strange_labels(tmp_path):
    put_camvid(tmp_path, "folder")
    path = tmp_path / "camvid" / "CamVid" / "testannot" / "scene_0.png"
    Image.fromarray(np.full((6, 8), 30, np.uint8)).save(path)
    with pytest.raises(DataError, match="labels run to 30 in testannot, expected 0 to 11"):
        datasets.load("camvid", tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="same images in test and testannot, found 2 and 1"):
        datasets.load("camvid", tmp_path)


@pytest.mark.parametrize("name", ["camvid", "cityscapes"])
def test_scenes_and_maps_are_brought_to_one_size(tmp_path, name):
    put_camvid(tmp_path, "folder")
    write_cityscapes(tmp_path / "cityscapes", IDS, {"train": 3, "val": 1})
    data = datasets.load(name, tmp_path, size=[2, 4])
    assert data.train.inputs[torch.arange(3)].shape == (3, 3, 2, 4)
    assert data.train.targets[torch.arange(3)].shape == (3, 2, 4)
