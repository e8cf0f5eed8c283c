"""SVHN's .mat files."""

import numpy as np
import pytest
from official_files import write_svhn
from scipy.io import savemat

from jostle import datasets
from jostle.datasets import DataError, svhn


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


def test_arrays_that_would_not_fit_are_not_read(tmp_path, monkeypatch):
    write_svhn(tmp_path / "svhn")
    monkeypatch.setattr(svhn, "MOST_VALUES", 100)
    monkeypatch.setattr("scipy.io.loadmat", None)
    with pytest.raises(DataError, match=r"has X of shape \(32, 32, 3, 5\): expected"):
        datasets.load("svhn", tmp_path)
