"""SVHN's .mat files."""

import contextlib

import numpy as np
import pytest
from official_files import write_svhn
from scipy.io import loadmat, savemat

from jostle import datasets
from jostle.datasets import DataError
from jostle.datasets.binary_files import read_matlab


def test_reads_what_was_written(tmp_path):
    pixels = write_svhn(tmp_path / "svhn")
    data = datasets.load("svhn", tmp_path)
    assert data.train.targets.tolist() == [0, 1, 2, 9, 0]  # the files say 10 for the digit 0
    assert data.test.targets.tolist() == [5, 0]
    np.testing.assert_array_equal(np.asarray(data.preview(3)), pixels["train"][..., 3])
    np.testing.assert_allclose(
        data.test.inputs[1, 2], (pixels["test"][:, :, 2, 1] / 255 - 0.4463) / 0.1992, atol=1e-5
    )


def mat(path, **arrays):
    savemat(path, arrays)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:2000]), "cannot be read: expected a MATLAB file"),
        (lambda path: path.write_bytes(b"not matlab"), "cannot be read: expected a MATLAB file"),
        (lambda path: path.write_bytes(b""), "cannot be read: expected a MATLAB file"),
        (lambda path: mat(path, X=np.zeros((32, 32, 3, 2), np.uint8)), "has no y"),
        (
            lambda path: mat(path, X=np.zeros((2, 32, 32, 3), np.uint8), y=[1, 2]),
            r"has X uint8 \(2, 32, 32, 3\)",
        ),
        (lambda path: mat(path, X=np.zeros((32, 32, 3, 2)), y=[1, 2]), "has X float64"),
        (lambda path: mat(path, X=np.zeros((32, 32, 3, 2), np.uint8), y=[0, 11]), "labels 0 to 11"),
    ],
)
def test_bad_files_are_named(tmp_path, spoil, message):
    write_svhn(tmp_path / "svhn")
    path = tmp_path / "svhn" / "test_32x32.mat"
    spoil(path)
    with pytest.raises(DataError, match=message) as error:
        datasets.load("svhn", tmp_path)
    assert str(path) in str(error.value)


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
