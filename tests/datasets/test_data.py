"""Split, Data and Fields: what they hold, what they refuse, what they show."""

import hashlib
import os
import time

import numpy as np
import pytest
import torch

from jostle.datasets import Data, DataError, Fields, Split
from jostle.datasets.images import standardize


def images(n: int = 5, channels: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, channels, 4, 6), dtype=np.uint8))


def image_data(pixels: torch.Tensor) -> Data:
    mean, std = (0.4, 0.5, 0.6)[: pixels.shape[1]], (0.2, 0.25, 0.3)[: pixels.shape[1]]
    inputs = standardize(pixels, mean, std)
    train = Split(inputs, torch.arange(len(pixels)) % 2)
    return Data("made", "classification", train, train, ("a", "b"), mean, std)


def test_standardize_by_hand():
    pixels = torch.tensor([0, 255, 51], dtype=torch.uint8).view(1, 1, 1, 3)
    expected = torch.tensor([-0.5 / 0.25, 0.5 / 0.25, (0.2 - 0.5) / 0.25]).view(1, 1, 1, 3)
    torch.testing.assert_close(standardize(pixels, [0.5], [0.25]), expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_preview_gives_the_pixels_back(channels):
    pixels = images(channels=channels)
    shown = np.asarray(image_data(pixels).preview(3))
    original = pixels[3].permute(1, 2, 0).numpy()
    np.testing.assert_array_equal(shown.reshape(original.shape), original)


def test_examples_that_are_not_there_are_named():
    data = image_data(images())
    for position in (5, -1):
        with pytest.raises(DataError, match=f"made has 5 training examples, and no number {position}"):
            data.preview(position)


def test_checksums_of_files_and_folders_see_contents_and_read_a_file_once(tmp_path, monkeypatch):
    folder, path = tmp_path / "folder", tmp_path / "folder" / "a.bin"
    split = Split(torch.zeros(1, 2), torch.zeros(1))
    folder.mkdir()

    def found() -> dict[str, str]:
        return Data("made", "regression", split, split, sources=(path, folder)).checksums

    path.write_bytes(b"1234")
    digest = hashlib.sha256(b"1234").hexdigest()
    lines = f"{digest}  a.bin\n".encode()  # as sha256sum prints them
    first = found()
    assert first == {"a.bin": digest, "folder/": hashlib.sha256(lines).hexdigest()}
    path.write_bytes(b"1235")  # the same name and size, at once
    second = found()
    assert first["folder/"] != second["folder/"]
    old = time.time_ns() - 60 * 10**9
    os.utime(path, ns=(old, old))
    assert found() == second
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert found() == second  # known by its time, which is long ago


def test_checksums_of_tensors_change_with_them():
    first, second = image_data(images()), image_data(images().flip(0))
    assert first.checksums == image_data(images()).checksums
    assert first.checksums["train inputs"] != second.checksums["train inputs"]
    assert first.checksums["train targets"] == second.checksums["train targets"]


def test_mismatched_lengths_are_refused():
    with pytest.raises(DataError, match="3 inputs came with 2 targets"):
        Split(torch.zeros(3, 1), torch.zeros(2))
    with pytest.raises(DataError, match="1 names"):
        Split(torch.zeros(3, 1), torch.zeros(3), ("only",))


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_the_classes_are_refused(label):
    split = Split(torch.zeros(2, 1), torch.tensor([0, label]))
    with pytest.raises(DataError, match="made, train: labels run from"):
        Data("made", "classification", split, split, ("a", "b"))


def tokens() -> Fields:
    ids = torch.tensor([[5, 6, 7, 0, 0], [8, 0, 0, 0, 0], [9, 10, 0, 0, 0]])
    return Fields(
        {"input_ids": ids, "attention_mask": (ids > 0).long(), "length": (ids > 0).sum(1)}, "attention_mask"
    )


def test_fields_drop_common_padding_from_batches_only():
    fields = tokens()
    assert len(fields) == 3
    batch = fields[torch.tensor([2, 1])]
    assert batch["input_ids"].tolist() == [[9, 10], [8, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["length"].tolist() == [2, 1]
    assert fields[0]["input_ids"].tolist() == [5, 6, 7, 0, 0]
