"""Image files and folders of them: framing, decoding by the batch, Caltech101's archives, folders of one's own."""

import hashlib
import io
import zipfile

import numpy as np
import pytest
import torch
from official_files import encoded, picture, tar_gz, write_classes, write_files
from PIL import Image

from jostle import datasets
from jostle.datasets import DataError, ImageFiles, binary_files
from jostle.datasets.binary_files import Cropped, Stretched, to_eight_bits
from jostle.datasets.data import hold_out
from jostle.datasets.images import MapFiles, Pixels, standardize

COUNTS = {"BACKGROUND_Google": 3, "Faces": 10, "ant": 5}


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        picture(6, 8, seed=i).save(path)
    return paths


def pixels_of(path):
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)


def test_a_batch_is_the_files_asked_for(files):
    images = ImageFiles(files, Stretched())
    batch = images[torch.tensor([3, 0, 3, -1])]
    expected = torch.stack([pixels_of(files[i]) for i in (3, 0, 3, 4)])
    torch.testing.assert_close(batch, standardize(expected, images.mean, images.std), rtol=0, atol=0)
    torch.testing.assert_close(images[3], batch[0], rtol=0, atol=0)
    assert len(images) == 5
    assert images[torch.tensor([], dtype=torch.int64)].shape == (0, 3, 6, 8)


def test_files_are_decoded_once_when_they_fit(files):
    decoded = []

    def counting(image):
        decoded.append(image)
        return image

    pixels = Pixels(files, counting)
    pixels.shape  # noqa: B018
    decoded.clear()
    for index in ([0, 1, 1], [1, 2, 0], [3, 4, 2]):
        pixels[torch.tensor(index)]
    assert len(decoded) == 5


@pytest.mark.parametrize(
    "content", [b"", b"<html>", encoded(picture(40, 40), "JPEG")[:300], encoded(picture(), "PNG")[:60]]
)
def test_broken_images_are_named(files, content):
    files[2].write_bytes(content)
    with pytest.raises(DataError, match=r"2\.png is not an image that can be read"):
        ImageFiles(files, Stretched())[torch.arange(5)]


def test_images_of_other_sizes_need_a_size(files):
    picture(7, 8).save(files[3])
    with pytest.raises(DataError, match=r"3\.png has shape \(3, 7, 8\).*give a size"):
        ImageFiles(files, Stretched())[torch.arange(5)]
    assert ImageFiles(files, Stretched((4, 5)))[torch.arange(5)].shape == (5, 3, 4, 5)


def test_cropped_by_hand():
    # as high as the short side, so nothing is resized: the middle 12 of columns 0..31 are 10 to 21
    ramp = Image.fromarray(np.tile(np.arange(32, dtype=np.uint8), (16, 1)))
    framed = np.asarray(Cropped(12, 16, "L")(ramp))
    np.testing.assert_array_equal(framed, np.tile(np.arange(10, 22), (12, 1)))


def test_a_sliver_is_cut_before_it_is_enlarged(monkeypatch):
    tall = Image.fromarray(np.arange(100_000, dtype=np.uint32).astype(np.uint8)[:, None])
    framed = np.asarray(Cropped(224, 256, "L")(tall))  # 256 x 25,600,000 pixels, were it resized first
    assert framed.shape == (224, 224)
    assert set(np.unique(framed)) <= {49_999 % 256, 50_000 % 256, 50_001 % 256}
    image = picture(40, 90)
    whole = np.asarray(Cropped(24, 32)(image)).astype(int)
    monkeypatch.setattr(binary_files, "MAX_RESIZED_PIXELS", 0)
    assert np.abs(np.asarray(Cropped(24, 32)(image)).astype(int) - whole).max() <= 1


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    picture(20, 30).convert(mode).save(tmp_path / "a.tiff")
    assert ImageFiles([tmp_path / "a.tiff"], Cropped(8, 8))[0].shape == (3, 8, 8)


def test_maps_are_renamed_and_never_blended(tmp_path):
    labels = np.array([[0, 7], [200, 7]], np.uint8).repeat(4, 0).repeat(4, 1)
    Image.fromarray(labels).save(tmp_path / "map.png")
    table = [255] * 256
    table[0], table[7] = 3, 5
    maps = MapFiles([tmp_path / "map.png"], Stretched((3, 3), mode=""), table)
    small = maps[torch.tensor([0])]
    assert small.dtype == torch.int64
    assert set(maps.pixels[torch.tensor([0])].unique().tolist()) <= {0, 7, 200}
    whole = MapFiles([tmp_path / "map.png"], Stretched(mode=""), table)[0]
    assert whole[[0, 0, 7, 7], [0, 7, 0, 7]].tolist() == [3, 5, 255, 5]


def test_colored_maps_are_refused(files):
    with pytest.raises(DataError, match="one channel of 8 bits, this has mode RGB"):
        MapFiles(files, Stretched(mode=""), range(256))[0]


def test_huge_images_are_refused_not_decoded(tmp_path, monkeypatch):
    picture(50, 50).save(tmp_path / "big.png")
    monkeypatch.setattr(binary_files, "MAX_PIXELS", 2499)
    with pytest.raises(DataError, match=r"big\.png.*50 x 50 pixels are more than 2499"):
        ImageFiles([tmp_path / "big.png"], Stretched())[0]
    monkeypatch.setattr(binary_files, "MAX_PIXELS", 2500)
    assert ImageFiles([tmp_path / "big.png"], Stretched())[0].shape == (3, 50, 50)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(DataError, match=r"big\.png"):
        ImageFiles([tmp_path / "big.png"], Stretched())[0]


def ramp(top: int) -> np.ndarray:
    """16 bits a pixel, from 0 to `top` in 256 steps."""
    return np.linspace(0, top, 256).round().astype(np.uint16).reshape(16, 16)


@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("top", [4095, 65535])
def test_pictures_of_16_bits_keep_their_shades(tmp_path, ending, top):
    path = tmp_path / f"a.{ending}"
    Image.fromarray(ramp(top)).save(path)
    files = ImageFiles([path], Stretched(mode="L"), (0.0,), (1.0,))
    expected = torch.arange(256).view(1, 16, 16) / 255
    torch.testing.assert_close(files[0], expected, rtol=0, atol=1 / 255)
    np.testing.assert_array_equal(np.asarray(files.original(0)), np.asarray(files.preview(0)))
    cropped = ImageFiles([path], Cropped(16, 16), (0.0,) * 3, (1.0,) * 3)[0]
    torch.testing.assert_close(cropped, expected.expand(3, 16, 16), rtol=0, atol=1 / 255)


def test_floating_point_pictures_are_scaled_by_their_finite_range():
    values = np.float32([[-1, 0], [1, np.nan]])
    assert np.asarray(to_eight_bits(Image.fromarray(values))).tolist() == [[0, 128], [255, 0]]
    for value in (7.0, np.inf):
        assert np.asarray(to_eight_bits(Image.fromarray(np.full((2, 2), value, np.float32)))).max() == 0
    dark = Image.fromarray(np.uint8([[3, 9]]))
    assert to_eight_bits(dark) is dark


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
