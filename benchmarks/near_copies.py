"""`python -m benchmarks.near_copies`: how many changed copies are found, and how many other examples are merged.

Photos of Caltech101 and CIFAR-10 are re-encoded, resized, brightened and cropped, one change at a time; in sentences of
MRPC one digit is changed. Originals and copies are one project. A copy is found if it is in the group of its original.
Any other two examples in one group are a merge that nobody made: the table counts them.
"""

import io
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from zipfile import ZipFile

import torch
from PIL import Image, ImageEnhance

from benchmarks import frozen
from jostle import datasets
from jostle.datasets import Texts
from jostle.datasets.fetch import data_root
from jostle.labeling import Session
from jostle.labeling.sources.contents import Cell, Content, ContentKind

Change = Callable[[Image.Image, random.Random], bytes]
DIGITS = re.compile(r"\d")


def encode(image: Image.Image, quality: int | None = None) -> bytes:
    """Return a picture as PNG, or as JPEG of some quality."""
    held = io.BytesIO()
    image.save(held, "PNG") if quality is None else image.save(held, "JPEG", quality=quality)
    return held.getvalue()


def crop(image: Image.Image, share: float, draw: random.Random) -> Image.Image:
    """Cut a share of width and height away, somewhere."""
    width, height = image.size
    left, top = draw.uniform(0, share) * width, draw.uniform(0, share) * height
    return image.crop(
        (round(left), round(top), round(left + (1 - share) * width), round(top + (1 - share) * height))
    )


def brighten(image: Image.Image, factor: float) -> Image.Image:
    """Multiply the brightness."""
    return ImageEnhance.Brightness(image).enhance(factor)


def mix(image: Image.Image, draw: random.Random) -> bytes:
    """Crop 8 %, brighten by 15 %, resize to 3/4 and encode."""
    cut = brighten(crop(image, 0.08, draw), 1.15)
    return encode(cut.resize((cut.width * 3 // 4, cut.height * 3 // 4)), 60)


CHANGES: dict[str, Change] = {
    "JPEG, quality 60": lambda image, _: encode(image, 60),
    "JPEG, quality 30": lambda image, _: encode(image, 30),
    "resized to 3/4": lambda image, _: encode(image.resize((image.width * 3 // 4, image.height * 3 // 4))),
    "brightness × 0.7": lambda image, _: encode(brighten(image, 0.7)),
    "brightness × 1.3": lambda image, _: encode(brighten(image, 1.3)),
    "cropped by 5 %": lambda image, draw: encode(crop(image, 0.05, draw)),
    "cropped by 10 %": lambda image, draw: encode(crop(image, 0.1, draw)),
    "cropped by 20 %": lambda image, draw: encode(crop(image, 0.2, draw)),
    "crop, brightness, size and JPEG": mix,
}


class HeldExamples:
    """Source of examples in memory."""

    def __init__(self, kind: ContentKind, held: Mapping[str, Content]) -> None:
        self.kind, self.held = kind, held

    def places(self) -> dict[str, str]:
        """Return the keys by name."""
        return {name: content.key for name, content in self.held.items()}

    def read(self, name: str) -> Content:
        """Return one example."""
        return self.held[name]

    def contents(self) -> Iterator[Content]:
        """Yield all examples."""
        yield from self.held.values()

    def column(self, column: str) -> dict[str, Cell]:
        """Return no labels."""
        return {}


def groups_of(kind: ContentKind, held: Mapping[str, Content]) -> list[tuple[str, str]]:
    """Return near-copies and their representatives, by name."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session.open(
            HeldExamples(kind, held), project=folder, answers=["yes", "no"], near_copies=True
        )
        session.index.refresh()
        found = session.copies.get().representative
        names = session.store.names([*found, *found.values()])
        session.close()
    return [(names[key], names[of]) for key, of in found.items()]


def count(
    kind: ContentKind, originals: Mapping[str, Content], changed: Mapping[str, Content]
) -> tuple[int, int]:
    """Return the number of copies that are found, and of merges that nobody made."""
    both = {**originals, **{f"changed {name}": content for name, content in changed.items()}}
    group = {name: name for name in both}
    for name, of in groups_of(kind, both):
        group[name] = of
    found = sum(group[name] == group[f"changed {name}"] for name in changed)
    plain = {name: name.removeprefix("changed ") for name in both}
    others = {frozenset((plain[name], plain[of])) for name, of in group.items() if plain[name] != plain[of]}
    return found, len(others)


def caltech_photos() -> dict[str, Image.Image]:
    """Return the photos of a Caltech101 sample, `caltech101/101_ObjectCategories_sample.zip`."""
    root = data_root()
    if root is None:
        raise SystemExit("name the folder of the data sets with the variable JOSTLE_DATA")
    with ZipFile(root / "caltech101" / "101_ObjectCategories_sample.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        return {name: Image.open(io.BytesIO(archive.read(name))).convert("RGB") for name in names}


def cifar_photos() -> dict[str, Image.Image]:
    """Return the first 2,000 photos of CIFAR-10."""
    pixels = frozen.pixels(datasets.load("cifar10"), torch.arange(2000)).permute(0, 2, 3, 1).numpy()
    return {f"{row:04}": Image.fromarray(image) for row, image in enumerate(pixels)}


def count_photos(name: str, photos: Mapping[str, Image.Image]) -> None:
    """Print the lines of one data set of photos."""
    for change, change_one in CHANGES.items():
        draw = random.Random(change)
        held = {each: Content("image", each, data=encode(photo)) for each, photo in photos.items()}
        changed = {
            each: Content("image", each, data=change_one(photo, draw)) for each, photo in photos.items()
        }
        print_line(name, change, len(changed), *count("image", held, changed))


def count_sentences() -> None:
    """Print the line of MRPC."""
    data, draw = datasets.load("mrpc"), random.Random(0)
    found = [split.inputs for split in (data.train, data.test)]
    texts = dict.fromkeys(
        text for each in found if isinstance(each, Texts) for row in each.rows for text in row
    )
    changed = {
        text: other for text in texts if (other := change_digit(text, draw)) not in texts and other != text
    }
    held, copies = (
        {name: Content("text", name, texts=(text,)) for name, text in each}
        for each in (((text, text) for text in texts), changed.items())
    )
    print_line("MRPC", "a changed digit", len(changed), *count("text", held, copies))


def change_digit(text: str, draw: random.Random) -> str:
    """Replace one digit of a text by another; a text without any stays as it is."""
    places = [found.start() for found in DIGITS.finditer(text)]
    if not places:
        return text
    place = draw.choice(places)
    return text[:place] + draw.choice("0123456789".replace(text[place], "")) + text[place + 1 :]


def print_line(data: str, change: str, total: int, found: int, others: int) -> None:
    """Print a line of the table."""
    print(f"| {data} | {change} | {found:,} of {total:,} ({found / total:.0%}) | {others} |", flush=True)


def main() -> None:
    """Print a table."""
    print("| data | change | found | other merges |")
    print("|---|---|---|---|")
    count_sentences()
    count_photos("Caltech101", caltech_photos())
    count_photos("CIFAR-10", cifar_photos())


if __name__ == "__main__":
    main()
