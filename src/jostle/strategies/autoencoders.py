"""Networks of VAAL and SRAAL: an autoencoder of raw images, a discriminator, and the batches that feed them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.rng import derive, seeded_globals

M = TypeVar("M", bound=nn.Module)

PASSES = 100  # over labeled set and pool together, unless `steps` says otherwise
CHANNELS = (128, 256, 512, 1024)  # of the full encoder
LIGHT_CHANNELS = (32, 32, 64)
LIGHT_UP_TO = 28  # pixels: 23 million weights are wasted on smaller images
FULL_WEIGHTS, LIGHT_WEIGHTS = 23_000_000, 300_000  # of an autoencoder, about
FULL_MAPS, LIGHT_MAPS = 256, 128  # numbers that all layers together make of a pixel, about
SMALL = 32  # pixels: images up to this size are not resized to `resize`


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
        if frame.light:  # 28 -> 29 -> 14 -> 7
            kernels, end = [4, 4, 4], frame.side // 4
        else:  # 32 -> 16 -> 8 -> 4 -> 2, or 28 -> 14 -> 7 -> 3 -> 2
            kernels, end = [4, 4, 4, 3 if frame.side == 28 else 4], -(-frame.side // 16)
        widths = LIGHT_CHANNELS if frame.light else CHANNELS
        first = {"stride": 1, "padding": 2} if frame.light else {}
        self.maps = nn.Sequential(
            stage(nn.Conv2d, frame.channels, widths[0], kernels[0], **first),
            *(stage(nn.Conv2d, a, b, k) for (a, b), k in zip(pairwise(widths), kernels[1:], strict=True)),
        )
        width = widths[-1] * end * end
        self.mean, self.log_variance = nn.Linear(width, latent), nn.Linear(width, latent)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(n, channels, side, side) -> two of (n, latent)."""
        hidden = self.maps(images).flatten(1)
        return self.mean(hidden), self.log_variance(hidden)


def stage(
    layer: Callable[..., nn.Module], a: int, b: int, kernel: int, stride: int = 2, padding: int = 1
) -> nn.Sequential:
    """A convolution, straight or transposed, that halves or doubles the side."""
    return nn.Sequential(layer(a, b, kernel, stride, padding, bias=False), nn.BatchNorm2d(b), nn.ReLU())


def decoder(frame: Frame, latent: int, channels: int | None = None) -> nn.Sequential:
    """Codes (n, latent) -> images, or maps of other `channels`, (n, channels, side, side)."""
    widths = (64, 32, 32) if frame.light else CHANNELS[::-1]
    start = frame.side // 4 if frame.light else -(-frame.side // 8)  # 4 -> 7 -> 14 -> 28, 4 -> 8 -> 16 -> 32
    first = 3 if frame.side == 28 and not frame.light else 4
    kernels = (first, *(4 for _ in widths[2:]))
    pairs = zip(pairwise(widths), kernels, strict=True)
    stages = [stage(nn.ConvTranspose2d, a, b, kernel) for (a, b), kernel in pairs]  # drawn before the rest
    return nn.Sequential(
        nn.Linear(latent, widths[0] * start * start),
        nn.Unflatten(1, (widths[0], start, start)),
        *stages,
        nn.Conv2d(widths[-1], frame.channels if channels is None else channels, 1),
    )


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers of these widths, with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def target_learner(frame: Frame, latent: int, outputs: tuple[int, ...]) -> nn.Sequential:
    """Codes -> what the model gives, of this shape: classes, or maps of them."""
    if len(outputs) > 2 and max(outputs[2:]) > 1:
        return decoder(frame, latent, channels=outputs[1])
    return perceptron(latent, 1024, 256, math.prod(outputs[1:]))


class Generator(nn.Module):
    """An autoencoder of images. With `outputs` the second half of its code predicts targets of this shape."""

    def __init__(self, frame: Frame, latent: int, outputs: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.encoder = Encoder(frame, latent)
        self.split = latent if outputs is None else latent // 2
        self.decoder = decoder(frame, self.split)
        self.learner = None if outputs is None else target_learner(frame, latent - self.split, outputs)

    def forward(self, images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """Images -> images decoded and targets predicted from drawn codes, the codes' means and log-variances."""
        mean, log_variance = self.encoder(images)
        code = sampled_codes(mean, log_variance, rng)
        predicted = None if self.learner is None else self.learner(code[:, self.split :])
        return self.decoder(code[:, : self.split]), predicted, mean, log_variance


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
