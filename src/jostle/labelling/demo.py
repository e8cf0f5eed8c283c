"""Data to try the page on: scikit-learn's handwritten digits as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from jostle.labelling.contents import Cell, Content, ContentKind
from jostle.labelling.pictures import as_png

CLASSES = tuple("0123456789")
SIDE = 64  # pixels; drawn larger than their 8, as people read shapes and not squares
INKS = 16  # of scikit-learn's pixels


class Digits:
    """1,797 handwritten digits, dark on light; nothing is downloaded."""

    kind: ContentKind = "image"

    @cached_property
    def bunch(self) -> Any:
        """Pixels and truth."""
        from sklearn.datasets import load_digits  # here, because it takes its time

        return load_digits()

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The rows of scikit-learn's table by the names of the pictures."""
        return {f"digit-{number:04}.png": number for number in range(len(self.bunch.images))}

    def places(self) -> dict[str, str]:
        """They never change."""
        return dict.fromkeys(self.numbers, "1")

    def read(self, name: str) -> Content:
        """One digit."""
        number = self.numbers[name]
        grey = 255 - np.round(self.bunch.images[number] * (255 / INKS)).astype(np.uint8)
        image = Image.fromarray(grey).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return Content("image", name, as_png(image))

    def contents(self) -> Iterator[Content]:
        """Every digit."""
        return map(self.read, self.numbers)

    def column(self, column: str) -> dict[str, Cell]:
        """The truth, as `digit`."""
        if column != "digit":
            raise ValueError(f"the digits have no column {column!r}; the truth is `digit`")
        return {name: str(truth) for name, truth in zip(self.numbers, self.bunch.target, strict=True)}
