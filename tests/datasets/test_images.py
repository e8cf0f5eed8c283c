"""Image files: framing, decoding by the batch, keeping what was decoded."""

import numpy as np
import pytest
import torch
from official_files import encoded, picture
from PIL import Image

from jostle.datasets import DataError, ImageFiles, binary_files
from jostle.datasets.binary_files import Cropped, Stretched, to_eight_bits
from jostle.datasets.images import MapFiles, Pixels, standardize


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
    assert np.asarray(to_eight_bits(Image.fromarray(np.full((2, 2), 7.0, np.float32)))).max() == 0
    assert np.asarray(to_eight_bits(Image.fromarray(np.full((2, 2), np.inf, np.float32)))).max() == 0


def test_bytes_are_left_alone():
    dark = Image.fromarray(np.uint8([[3, 9]]))
    assert to_eight_bits(dark) is dark
