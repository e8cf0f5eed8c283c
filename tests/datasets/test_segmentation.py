"""Cityscapes' folders and CamVid's."""

import zipfile

import numpy as np
import pytest
import torch
from official_files import picture, write_camvid, write_cityscapes
from PIL import Image

from jostle import datasets
from jostle.datasets import DataError

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


def test_camvid_is_brought_to_one_size(tmp_path):
    put_camvid(tmp_path, "folder")
    data = datasets.load("camvid", tmp_path, size=(3, 4))
    assert data.shape == (3, 3, 4)
    assert data.train.targets.shape == (3, 3, 4)


def test_cityscapes_can_be_shrunk(tmp_path):
    write_cityscapes(tmp_path / "cityscapes", IDS, {"train": 1, "val": 1})
    data = datasets.load("cityscapes", tmp_path, size=[2, 4])
    assert data.train.inputs[torch.tensor([0])].shape == (1, 3, 2, 4)
    assert data.train.targets[torch.tensor([0])].shape == (1, 2, 4)
