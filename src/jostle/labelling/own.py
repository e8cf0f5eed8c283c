"""A function of yours as a source: `file.py:name` returns a list of pictures, texts or rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from jostle.labelling.contents import Cell, Content, ContentKind
from jostle.labelling.pictures import as_png
from jostle.labelling.source import SourceError
from jostle.labelling.tables import plain_row
from jostle.plumbing.user_files import from_file

EXPECTED = (
    "a list of texts, of pairs of texts, of dicts (rows), of paths of images, of PIL images, or of arrays of pixels; "
    "or (such a list, a list of targets)"
)


class Own:
    """What a user's function returned; it is called once, when the project is opened."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        made = from_file(spec)()
        labelled = isinstance(made, tuple) and len(made) == 2 and not isinstance(made[0], str)
        items, targets = made if labelled else (made, None)
        if not hasattr(items, "__len__") or not hasattr(items, "__getitem__") or not len(items):
            raise SourceError(f"{spec} returned {type(made).__name__}; expected {EXPECTED}")
        self.items, self.targets = items, targets
        self.kind: ContentKind = content_of(items[0], "0", spec).kind

    def places(self) -> dict[str, str]:
        """Positions in the list; of pictures the content is looked at when it is needed."""
        numbers = range(len(self.items))
        if self.kind == "image":
            return {str(i): self.spec for i in numbers}
        return {str(i): self.read(str(i)).key for i in numbers}

    def read(self, name: str) -> Content:
        """One item."""
        if not name.isdecimal() or int(name) >= len(self.items):
            raise KeyError(name)
        return content_of(self.items[int(name)], name, self.spec)

    def contents(self) -> Iterator[Content]:
        """Every item."""
        return (self.read(str(i)) for i in range(len(self.items)))

    def column(self, column: str) -> dict[str, Cell]:
        """The only column is `target`: the second list that the function returned."""
        if column != "target" or self.targets is None:
            raise SourceError(
                f"{self.spec} has no column {column!r}; return (items, targets) to have a `target`"
            )
        cells = (target.item() if hasattr(target, "item") else target for target in self.targets)
        return {str(i): cell for i, cell in enumerate(cells)}


def content_of(item: Any, name: str, spec: str) -> Content:
    """An item as it is shown."""
    if isinstance(item, str):
        return Content("text", name, texts=(item,))
    if isinstance(item, Path):
        return Content("image", name, item.read_bytes())
    if isinstance(item, Image.Image):
        return Content("image", name, as_png(item))
    if isinstance(item, Mapping):
        return Content("row", name, fields=plain_row(item))
    if isinstance(item, Sequence) and len(item) == 2 and all(isinstance(part, str) for part in item):
        return Content("text", name, texts=tuple(item))
    pixels = getattr(item, "shape", ())
    if len(pixels) in (2, 3):
        return Content("image", name, as_png(picture(item)))
    if len(pixels) == 1:
        return Content("row", name, fields={f"x{i}": float(value) for i, value in enumerate(item)})
    raise SourceError(f"{spec} returned items of {type(item).__name__}; expected {EXPECTED}")


def picture(values: Any) -> Image.Image:
    """An array (h, w), (h, w, channels) or (channels, h, w) as an image; fractions from 0 to 1 become bytes."""
    import numpy as np

    array = np.asarray(values)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if array.dtype.kind == "f":
        array = array * 255 if array.max(initial=0) <= 1 else array
    return Image.fromarray(np.clip(array, 0, 255).astype(np.uint8))
