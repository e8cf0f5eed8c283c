"""Random flips and padded crops of a whole batch at once."""

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from jostle.inputs import Inputs
from jostle.tasks import VOID

__all__ = ["Augmentation"]


class Augmentation(BaseModel):
    """Augmentation of a batch of images before a training step; by default none.

    Maps of labels are flipped and cropped with their images; what is padded counts as void.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    flip: bool = False
    """Mirror every other image left to right."""
    crop: int | None = Field(default=None, ge=1)
    """The side of a square that is cut out at random, after padding; None: the whole image."""
    pad: int = Field(default=0, ge=0)
    """Pixels that are added on every side before."""

    def __call__(
        self, inputs: Inputs, targets: Tensor, rng: torch.Generator, black: tuple[float, ...] = ()
    ) -> tuple[Inputs, Tensor]:
        """The batch, flipped and cropped; borders are `black`, a value for each channel, or zero."""
        if not self.flip and self.crop is None:
            return inputs, targets
        if not isinstance(inputs, Tensor) or inputs.ndim != 4:
            raise ValueError(
                "flips and crops are for images (n, channels, height, width): set training.augment"
            )
        window = self.window(inputs, rng)
        images = cut(padded(inputs, self.pad, black), window)
        if targets.ndim == 3:
            targets = cut(padded(targets[:, None], self.pad, (VOID,)), window)[:, 0]
        return images, targets

    def window(self, images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The rows (n, height) and columns (n, width) to be read of each of the padded `images`, drawn with `rng`."""
        n, _, height, width = images.shape
        rows = self._stretch(n, height, rng)
        columns = self._stretch(n, width, rng)
        if self.flip:
            turned = torch.rand(n, generator=rng, device=rng.device) < 0.5
            columns = torch.where(turned[:, None], columns.flip(1), columns)
        return rows, columns

    def _stretch(self, n: int, side: int, rng: torch.Generator) -> Tensor:
        """Return the indices of each image's crop along one side, (n, crop)."""
        whole = side + 2 * self.pad
        size = side if self.crop is None else self.crop
        if size > whole:
            raise ValueError(f"cannot cut {size} pixels from a side of {side} padded by {self.pad}")
        start = torch.randint(whole - size + 1, (n, 1), generator=rng, device=rng.device)
        return start + torch.arange(size, device=rng.device)


def padded(images: Tensor, pad: int, black: tuple[float, ...]) -> Tensor:
    """Images with a border of `black`."""
    if not pad:
        return images
    n, channels, height, width = images.shape
    border = torch.tensor(black or [0.0], dtype=images.dtype, device=images.device).view(1, -1, 1, 1)
    canvas = border.expand(n, channels, height + 2 * pad, width + 2 * pad).clone()
    canvas[:, :, pad : pad + height, pad : pad + width] = images
    return canvas


def cut(images: Tensor, window: tuple[Tensor, Tensor]) -> Tensor:
    """Each image's own rows and columns in one gather; the result is in channels_last."""
    rows, columns = window
    every = torch.arange(len(images), device=images.device)[:, None, None]
    return images[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
