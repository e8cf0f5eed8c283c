"""Caltech101's folders and archives, and folders of one's own."""

import hashlib
import io
import zipfile

import numpy as np
import pytest
import torch
from official_files import encoded, picture, tar_gz, write_classes, write_files
from PIL import Image

from jostle import datasets
from jostle.datasets import DataError
from jostle.datasets.data import hold_out

COUNTS = {"BACKGROUND_Google": 3, "Faces": 10, "ant": 5}


def archive_files(prefix: str = "101_ObjectCategories") -> dict[str, bytes]:
    return {
        f"{prefix}/{name}/image_{i:04d}.jpg": encoded(picture(20, 30, seed=i), "JPEG")
        for name, count in COUNTS.items()
        for i in range(1, count + 1)
    }


def zipped(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return whole.getvalue()


def put_caltech(root, form: str) -> None:
    home, files = root / "caltech101", archive_files()
    if form == "folder":
        write_classes(home / "101_ObjectCategories", COUNTS)
    elif form == "zip":
        write_files(
            home, {"101_ObjectCategories.zip": zipped(files | {"101_ObjectCategories/.DS_Store": b"x"})}
        )
    elif form == "tar":
        write_files(home, {"101_ObjectCategories.tar.gz": tar_gz(files)})
    else:  # as published: an archive in an archive, with other things beside it
        inner = {
            "caltech-101/101_ObjectCategories.tar.gz": tar_gz(files),
            "caltech-101/show_annotation.m": b"%",
        }
        mac = {"__MACOSX/caltech-101/._101_ObjectCategories.tar.gz.jpg": b"junk"}
        write_files(home, {"caltech-101.zip": zipped(inner | mac)})


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "published"])
def test_caltech_in_all_its_forms(tmp_path, form):
    put_caltech(tmp_path, form)
    data = datasets.load("caltech101", tmp_path, size=8, short=10)
    assert data.classes == ("Faces", "ant")
    assert (len(data.train), len(data.test)) == (8 + 4, 2 + 1)
    assert data.train.targets.tolist() == [0] * 8 + [1] * 4
    assert data.train.inputs[torch.tensor([0, 11])].shape == (2, 3, 8, 8)
    names = {*data.train.names, *data.test.names}
    assert names == {f"{c}/image_{i:04d}.jpg" for c in ("Faces", "ant") for i in range(1, COUNTS[c] + 1)}


def test_held_out_by_hand():
    names = [f"row {i}" for i in range(10)]
    digests = {hashlib.sha256(name.encode()).hexdigest(): i for i, name in enumerate(names)}
    assert set(hold_out(names, 0.3)[1].tolist()) == {digests[key] for key in sorted(digests)[:3]}
    assert hold_out(names, 0)[1].tolist() == []
    with pytest.raises(DataError, match="from 0 to below 1"):
        hold_out(names, 1)


def test_class_folders(tmp_path):
    write_classes(tmp_path, {"cat": 10, "dog": 5})
    data = datasets.load(f"folder:{tmp_path}", size=8)
    assert (data.task, data.classes, len(data.train), len(data.test)) == (
        "classification",
        ("cat", "dog"),
        12,
        3,
    )
    assert data.shape == (3, 8, 8)
    assert data.name == f"folder:{tmp_path}"
    assert all((tmp_path / name).is_file() for name in data.train.names)
    assert isinstance(data.preview(0), Image.Image)


def test_a_pool_holds_nothing_out(tmp_path):
    write_classes(tmp_path, {"cat": 10, "dog": 5})
    data = datasets.pool(f"folder:{tmp_path}", size=8)
    assert (len(data.train), len(data.test)) == (15, 0)
    assert list(data.train.names) == sorted(data.train.names)


def test_images_alone_are_a_pool_without_labels(tmp_path):
    for i in (2, 0, 1):
        picture(20, 30, seed=i).save(tmp_path / f"{i}.png")
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "empty").mkdir()
    data = datasets.load(f"folder:{tmp_path}", size=(4, 6))
    assert (data.task, data.train.names, len(data.train.targets), len(data.test)) == (
        None, ("0.png", "1.png", "2.png"), 0, 0,
    )  # fmt: skip
    assert data.train.inputs[torch.arange(3)].shape == (3, 3, 4, 6)


def test_folders_train_and_test_are_the_splits(tmp_path):
    write_classes(tmp_path / "train", {"cat": 3, "dog": 2})
    write_classes(tmp_path / "test", {"dog": 4})
    data = datasets.load(f"folder:{tmp_path}", size=8)
    assert (data.train.targets.tolist(), data.test.targets.tolist()) == ([0, 0, 0, 1, 1], [1, 1, 1, 1])
    assert data.names(3) == "train/dog/image_0001.jpg"


def test_a_pool_takes_whatever_images_are_there(tmp_path):
    write_classes(tmp_path / "split" / "train", {"cat": 2, "dog": 1})
    write_classes(tmp_path / "split" / "test", {"cow": 1, "dog": 2})
    data = datasets.pool(f"folder:{tmp_path / 'split'}")
    assert data.train.names == (
        "train/cat/image_0001.jpg", "train/cat/image_0002.jpg", "test/cow/image_0001.jpg",
        "train/dog/image_0001.jpg", "test/dog/image_0001.jpg", "test/dog/image_0002.jpg",
    )  # fmt: skip
    assert (data.classes, data.train.targets.tolist()) == (("cat", "cow", "dog"), [0, 0, 1, 2, 2, 2])
    write_classes(tmp_path / "mixed", {"cat": 2})
    picture().save(tmp_path / "mixed" / "stray.png")
    data = datasets.pool(f"folder:{tmp_path / 'mixed'}")
    assert (data.task, data.train.names) == (
        None, ("cat/image_0001.jpg", "cat/image_0002.jpg", "stray.png"),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_images_of_the_right_size_stay_untouched(tmp_path, mode):
    image = picture(28, 28).convert(mode)
    image.save(tmp_path / "a.png")
    channels = np.asarray(image).reshape(28, 28, -1).transpose(2, 0, 1).astype(np.float32)
    for settings, expected in (
        ({}, channels / 255),
        ({"size": 28}, channels / 255),
        ({"size": [28, 28], "scale": 255}, channels),
        ({"size": 28, "mean": 0.5, "std": 0.25}, (channels / 255 - 0.5) / 0.25),
    ):
        data = datasets.pool(f"folder:{tmp_path}", mode=mode, **settings)
        np.testing.assert_allclose(data.train.inputs[0].numpy(), expected, atol=1e-6)


def test_the_order_of_classes_can_be_told(tmp_path):
    write_classes(tmp_path, {"cat": 1, "dog": 2})
    data = datasets.pool(f"folder:{tmp_path}", classes=["dog", "cow", "cat"])
    assert (data.classes, data.train.targets.tolist()) == (("dog", "cow", "cat"), [2, 0, 0])
    with pytest.raises(DataError, match=r"a folder dog that is not among classes \['cat'\]"):
        datasets.pool(f"folder:{tmp_path}", classes=["cat"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean": [0.1, 0.2], "std": 1}, "mean has 2 numbers, but images have 3 channels"),
        ({"mode": "L", "std": [0.1, 0.2, 0.3]}, "std has 3 numbers, but images have 1 channels"),
        ({"short": 30}, "short goes with an integer size"),
        ({"size": 100_000}, "size is a number, or height and width, of up to .* got 100000"),
        ({"size": 0}, "size is a number"),
        ({"size": [8, -1]}, "size is a number"),
        ({"size": [1, 2, 3]}, "size is a number"),
        ({"mode": "YCbCr"}, "mode takes RGB or L; got 'YCbCr'"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, settings, message):
    picture().save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=message):
        datasets.pool(f"folder:{tmp_path}", **settings)


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        datasets.load(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="holds no images"):
        datasets.load(f"folder:{tmp_path}")
    write_classes(tmp_path, {"cat": 1})
    picture().save(tmp_path / "stray.png")
    with pytest.raises(DataError, match=r"both images \(stray.png\) and folders of images \(cat\)"):
        datasets.load(f"folder:{tmp_path}")


@pytest.mark.parametrize("content", [b"PK\x03\x04 broken", b"", zipped(archive_files())[:-500]])
def test_a_broken_caltech_archive_is_named(tmp_path, content):
    write_files(tmp_path / "caltech101", {"caltech-101.zip": content})
    with pytest.raises(DataError, match=r"caltech-101\.zip is not a whole archive"):
        datasets.load("caltech101", tmp_path)


def test_gray_and_own_constants(tmp_path):
    write_classes(tmp_path, {"cat": 3})
    data = datasets.load(f"folder:{tmp_path}", size=None, mode="L", mean=[0.5], std=[0.25])
    assert data.shape == (1, 20, 30)
    gray = np.asarray(Image.open(tmp_path / data.names(0)).convert("L"))
    np.testing.assert_allclose(data.train.inputs[0][0], (gray / 255 - 0.5) / 0.25, atol=1e-5)
