"""What VAAL and SRAAL share: an autoencoder of raw images, a discriminator, and the batches that feed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Choice, Embedding, Estimate
from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.rng import derive, seeded_globals
from jostle.selectors import top_k
from jostle.utils.names import look_up

M = TypeVar("M", bound=nn.Module)

PASSES = 100  # over labeled set and pool together, unless `steps` says otherwise
CHANNELS = (128, 256, 512, 1024)  # of the full encoder
LIGHT_CHANNELS = (32, 32, 64)
LIGHT_UP_TO = 28  # pixels: 23 million weights are wasted on smaller images
FULL_WEIGHTS, LIGHT_WEIGHTS = 23_000_000, 300_000  # of an autoencoder, about
FULL_MAPS, LIGHT_MAPS = 256, 128  # numbers that all layers together make of a pixel, about
SMALL = 32  # pixels: images up to this size are not resized to `resize`


@dataclass(frozen=True, kw_only=True)
class Autoencoding(Embedding):
    """How unlabeled each image looks to a discriminator, whose autoencoder learns from pool and labeled set."""

    selector: Choice = top_k
    steps: int | None = None
    """Steps of training; None: the published 100 passes, 100 (m + n) / batch."""
    batch: int = 128
    """Images of each set in a step."""
    learning_rate: float = 5e-4
    """The learning rate of Adam."""
    latent: int = 32
    """The width of the code."""
    encoder: str | None = None
    """Which encoder: "full" (23 million weights) or "light"; None: light up to 28 x 28 pixels."""
    resize: int = 64
    """Images larger than 32 x 32 are shrunk or stretched to this many pixels a side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.steps is not None and self.steps < 1) or self.batch < 1:
            raise ValueError(f"steps and batch must be at least 1; got {self.steps} and {self.batch}")
        if self.encoder is not None:
            look_up("encoder", self.encoder, {"full": None, "light": None})
        if self.resize < SMALL or self.resize % 16:
            raise ValueError(f"resize must be a multiple of 16 of at least {SMALL}; got {self.resize}")

    def frame(self, context: QueryContext, method: str) -> Frame:
        """The size and kind of image that the networks are made for."""
        images = context.runner.example
        if not isinstance(images, Tensor) or images.ndim != 4 or not 1 <= images.shape[1] <= 4:
            found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(
                f"{method} learns from images, tensors (n, channels, height, width) with 1 to 4 channels; "
                f"the inputs are {found}: use a method that reads features or outputs"
            )
        pixels = max(images.shape[2:])
        light = self.encoder == "light" or (self.encoder is None and pixels <= LIGHT_UP_TO)
        if pixels > SMALL:
            side = self.resize
        elif light:
            side = max(8, -(-pixels // 4) * 4)
        else:
            side = 28 if pixels <= 28 else 32
        return Frame(images.shape[1], side, light)

    def row_estimate(self, context: QueryContext) -> Estimate:
        """All images in memory, and an autoencoder with its gradients and moments."""
        images, frame = sum(map(len, context.pools)), self.frame(context, self.name)
        numbers = images * frame.channels * frame.side**2
        weights = LIGHT_WEIGHTS if frame.light else FULL_WEIGHTS
        maps = LIGHT_MAPS if frame.light else FULL_MAPS
        step = 12 * self.batch * frame.side**2 * maps  # activations of both sets, and their gradients
        return Estimate(
            passes=0,
            rows=4 * numbers + 8 * images,
            working=4 * (numbers + 4 * weights) + step,
            what=f"{images:,} images of {frame.side} x {frame.side} pixels, and an autoencoder of them",
            extra_work=f"{self.number_of_steps(images):,} steps of training",
        )

    def number_of_steps(self, images: int) -> int:
        """As set, or as published for this many images."""
        return self.steps or max(1, images * PASSES // self.batch)


@dataclass(frozen=True)
class Frame:
    """The images that an autoencoder is made for."""

    channels: int
    side: int  # pixels
    light: bool

    def read(self, context: QueryContext, pool: Pool) -> Tensor:
        """All images of a pool at this size, on the CPU; resized batch by batch, since the originals may be huge."""
        parts = []
        for images in context.batches(pool):
            images = images.float()
            if images.shape[2:] != (self.side, self.side):
                size = (self.side, self.side)
                images = F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False)
            parts.append(images.cpu())
        images = torch.cat(parts).contiguous()  # (n, channels, side, side)
        context.check_finite(images, "inputs", pool)
        return images


def standardize(*sets: Tensor) -> None:
    """Bring each channel to mean 0 and deviation 1 over several sets of images, in place, whatever their range."""
    over = (0, 2, 3)
    count = sum(images[:, 0].numel() for images in sets)
    mean = sum(images.sum(over, dtype=torch.double) for images in sets) / count  # (channels,)
    shift = torch.as_tensor(mean).float().view(-1, 1, 1)
    square = sum(images.sub_(shift).square().sum(over, dtype=torch.double) for images in sets) / count
    deviation = torch.as_tensor(square).sqrt().float().view(-1, 1, 1)
    for images in sets:
        images.div_(deviation.where(deviation > 0, 1.0))


class Encoder(nn.Module):
    """Images -> mean and log-variance of their codes."""

    def __init__(self, frame: Frame, latent: int) -> None:
        super().__init__()
        self.maps = light_encoder(frame) if frame.light else full_encoder(frame)
        end = frame.side // 4 if frame.light else -(-frame.side // 16)  # pixels a side; 28 -> 2, as 32
        width = (LIGHT_CHANNELS if frame.light else CHANNELS)[-1] * end * end
        self.mean, self.log_variance = nn.Linear(width, latent), nn.Linear(width, latent)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(n, channels, side, side) -> two of (n, latent)."""
        hidden = self.maps(images).flatten(1)
        return self.mean(hidden), self.log_variance(hidden)


def full_encoder(frame: Frame) -> nn.Sequential:
    """Four convolutions that halve the side: 32 -> 16 -> 8 -> 4 -> 2, or 28 -> 14 -> 7 -> 3 -> 2."""
    last = 3 if frame.side == 28 else 4
    widths = (frame.channels, *CHANNELS)
    kernels = (4, 4, 4, last)
    stages = [
        (nn.Conv2d(a, b, kernel, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        for a, b, kernel in zip(widths[:-1], widths[1:], kernels, strict=True)
    ]
    return nn.Sequential(*(part for stage in stages for part in stage))


def light_encoder(frame: Frame) -> nn.Sequential:
    """Three narrow convolutions: 28 -> 29 -> 14 -> 7."""
    a, b, c = LIGHT_CHANNELS
    return nn.Sequential(
        *(nn.Conv2d(frame.channels, a, 4, 1, 2, bias=False), nn.BatchNorm2d(a), nn.ReLU()),
        *(nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()),
        *(nn.Conv2d(b, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()),
    )


def decoder(frame: Frame, latent: int, channels: int | None = None) -> nn.Sequential:
    """Codes (n, latent) -> images, or maps of other `channels`, (n, channels, side, side)."""
    widths = (64, 32, 32) if frame.light else CHANNELS[::-1]
    start = frame.side // 4 if frame.light else -(-frame.side // 8)  # 4 -> 7 -> 14 -> 28, 4 -> 8 -> 16 -> 32
    first = 3 if frame.side == 28 and not frame.light else 4
    kernels = (first, *(4 for _ in widths[2:]))
    stages = [
        (nn.ConvTranspose2d(a, b, kernel, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        for a, b, kernel in zip(widths[:-1], widths[1:], kernels, strict=True)
    ]
    return nn.Sequential(
        nn.Linear(latent, widths[0] * start * start),
        nn.Unflatten(1, (widths[0], start, start)),
        *(part for stage in stages for part in stage),
        nn.Conv2d(widths[-1], frame.channels if channels is None else channels, 1),
    )


def discriminator(latent: int, hidden: int) -> nn.Sequential:
    """Codes -> logits (n, 1) of their state, through some hidden layers of width 512."""
    widths = (latent, *(512 for _ in range(hidden)))
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in layer), nn.Linear(widths[-1], 1))


def seeded_network(build: Callable[[], M], context: QueryContext, *purpose: str) -> M:
    """A network in training mode whose first weights depend on the context's seed alone."""
    with seeded_globals(derive(context.seed, *purpose)), torch.device("cpu"):
        network = build()
    return network.to(context.device).train()


def sampled_codes(mean: Tensor, log_variance: Tensor, rng: torch.Generator) -> Tensor:
    """Codes drawn around their means."""
    noise = torch.randn(mean.shape, generator=rng, device=mean.device, dtype=mean.dtype)
    return mean + noise * (log_variance / 2).exp()


def code_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Divergence of each code's distribution from the standard normal, summed over the code only: (n,)."""
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)


def squared_error(images: Tensor, decoded: Tensor) -> Tensor:
    """Mean over the pixels, for each image: (n,)."""
    return (images - decoded).square().flatten(1).mean(1)


def state_losses(logits: Tensor, states: Tensor) -> Tensor:
    """Cross-entropy of each code's predicted state (n, 1) with its state (n,) between 0 and 1."""
    return F.binary_cross_entropy_with_logits(logits.squeeze(1), states, reduction="none")


def mean_of_both_sets(losses: Tensor, m: int) -> Tensor:
    """The mean over the labeled, who come first, plus the mean over the unlabeled."""
    return losses[:m].mean() + losses[m:].mean()


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One update."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def paired_batches(context: QueryContext, m: int, n: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions of a batch of labeled images and of a batch of unlabeled ones, without end."""
    rng = context.rng("labelled batches", device="cpu")  # draws follow from these very words
    labeled = shuffled_batches(m, batch, rng)
    return zip(labeled, shuffled_batches(n, batch, context.rng("pool batches", device="cpu")), strict=True)


def shuffled_batches(size: int, batch: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Positions without end, a batch at a time: each pass has an order of its own, and drops a short last batch."""
    batch = min(batch, size)
    while True:
        yield from torch.randperm(size, generator=rng, device=rng.device).split(batch)[: size // batch]


def discriminator_logits(
    images: Tensor, encoder: Encoder, judge: nn.Module, context: QueryContext, batch: int
) -> Tensor:
    """The discriminator's logits of the images' mean codes, in eval mode, (n,)."""
    encoder.eval()  # left in training mode, an image's score would depend on its batch
    judge.eval()
    with torch.no_grad():
        parts = [judge(encoder(part.to(context.device))[0]) for part in images.split(batch)]
    return torch.cat(parts).squeeze(1)
