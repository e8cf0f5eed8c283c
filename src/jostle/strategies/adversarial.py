"""VAAL and SRAAL: an autoencoder makes labeled and unlabeled images look alike, a discriminator tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Choice, Embedded, Embedding, Estimate
from jostle.inference.context import QueryContext
from jostle.selectors import top_k
from jostle.strategies.autoencoders import (
    FULL_MAPS,
    FULL_WEIGHTS,
    LIGHT_MAPS,
    LIGHT_UP_TO,
    LIGHT_WEIGHTS,
    PASSES,
    SMALL,
    Frame,
    Generator,
    code_divergence,
    descend,
    discriminator_logits,
    mean_of_both_sets,
    paired_batches,
    perceptron,
    seeded_network,
    squared_error,
    standardize,
    state_losses,
)
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

DECAYS = 30  # times that the learning rate falls in a run

TargetLoss = Callable[[Tensor | None, Tensor], Tensor | float]  # predicted, positions of the labeled -> loss


@dataclass(frozen=True, kw_only=True)
class Autoencoding(Embedding):
    """How unlabeled each image looks to a discriminator, whose autoencoder learns from pool and labeled set.

    Both sets pass the autoencoder together: BatchNorm would give a set away that passes alone.
    """

    ranges: ClassVar = {"steps": "[1, inf)", "batch": "[1, inf)", "encoder": ("full", "light")}
    serves = (*CLASS_TASKS, "segmentation")
    labeled_state: ClassVar[float]  # the state of labeled images, 0 or 1
    hidden: ClassVar[tuple[int, ...]]  # widths of the hidden layers of the discriminator
    decay: ClassVar[float] = 1.0  # of the learning rate, 30 times in a run

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
    beta: float = 1.0
    """Weight of the codes' divergence, as published; 0.1 lets codes keep more of the images."""
    adversary: float = 1.0
    """Weight of fooling the discriminator."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize < SMALL or self.resize % 16:
            raise ValueError(f"resize must be a multiple of 16 of at least {SMALL}; got {self.resize}")

    def embedding(self, context: QueryContext) -> Embedded:
        """How unlabeled each image of the pool looks, (n,): -ln of the discriminator's share of labeled ones."""
        labeled, frame, states = context.needs_labeled(self.name), self.frame(context), self.states(context)
        known, new = frame.read(context, labeled.inputs), frame.read(context, context.pool)
        standardize(known, new)
        generator = seeded_network(lambda: self.generator(context, frame), context, self.name)
        judge = seeded_network(lambda: perceptron(self.latent, *self.hidden, 1), context, "discriminator")
        self.train(context, generator, judge, known, new, states, self.target_loss(context, frame))
        logits = discriminator_logits(new, generator.encoder, judge, context, self.batch)
        return Embedded(
            F.softplus(-logits if self.labeled_state else logits)
        )  # the share itself would saturate

    @torch.enable_grad()
    def train(
        self,
        context: QueryContext,
        generator: Generator,
        judge: nn.Module,
        known: Tensor,
        new: Tensor,
        states: Tensor,
        target_loss: TargetLoss,
    ) -> None:
        """Train the generator and the discriminator against each other."""
        steps, device = self.number_of_steps(len(known) + len(new)), context.device
        adams = [torch.optim.Adam(net.parameters(), self.learning_rate) for net in (generator, judge)]
        rates = [
            torch.optim.lr_scheduler.LambdaLR(a, lambda s: self.decay ** (DECAYS * s // steps)) for a in adams
        ]
        noise = context.rng("codes")
        batches = paired_batches(context, len(known), len(new), self.batch)
        with context.progress(f"training {self.name}", steps) as advance:
            for _ in range(steps):
                for _ in range(2):
                    old, other = next(batches)
                    images = torch.cat([known[old], new[other]]).to(device)
                    decoded, predicted, mean, log_variance = generator(images, noise)
                    losses = self.image_losses(images, decoded) + self.beta * code_divergence(
                        mean, log_variance
                    )
                    fooled = state_losses(judge(mean), torch.full_like(losses, self.labeled_state))
                    loss = mean_of_both_sets(losses + self.adversary * fooled, len(old))
                    descend(adams[0], loss + target_loss(predicted, old))
                with torch.no_grad():
                    mean, _ = generator.encoder(images)
                right = torch.cat([torch.full((len(old),), self.labeled_state), states[other]]).to(device)
                descend(adams[1], mean_of_both_sets(state_losses(judge(mean), right), len(old)))
                for rate in rates:
                    rate.step()
                advance(1)

    def states(self, context: QueryContext) -> Tensor:
        """Return the state of each image of the pool, which the discriminator learns, (n,)."""
        return torch.zeros(len(context.pool), device="cpu")

    def generator(self, context: QueryContext, frame: Frame) -> Generator:
        """Return the network that the discriminator judges by its codes."""
        return Generator(frame, self.latent)

    def image_losses(self, images: Tensor, decoded: Tensor) -> Tensor:
        """Return the loss of each decoded image, (n,)."""
        return squared_error(images, decoded)

    def target_loss(self, context: QueryContext, frame: Frame) -> TargetLoss:
        """Return the loss of what the generator predicts of labeled images."""
        return lambda predicted, labeled: 0.0

    def frame(self, context: QueryContext) -> Frame:
        """The size and kind of image that the networks are made for."""
        images = context.runner.example
        if not isinstance(images, Tensor) or images.ndim != 4 or not 1 <= images.shape[1] <= 4:
            found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(
                f"{self.name} learns from images, tensors (n, channels, height, width) with 1 to 4 channels; "
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
        images, frame = sum(map(len, context.pools)), self.frame(context)
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


@register(
    "vaal",
    gist="images that look least like labeled ones",
    formula="largest -ln D(mu(x)), D being trained to give 1 for labeled codes and 0 for unlabeled ones",
    needs=("images", "labeled set", "extra training"),
    cost="trains an autoencoder of 23 million weights (light: 0.3 million) for `steps` steps; a GPU's work",
    paper="Sinha et al., Variational Adversarial Active Learning, ICCV 2019",
    when="the pool holds kinds of images that the labeled set lacks, and the model is not to be trusted yet",
)
@dataclass(frozen=True, kw_only=True)
class VAAL(Autoencoding):
    """A variational autoencoder learns codes of all images while a discriminator learns to tell labeled codes
    from unlabeled ones. The images that look least labeled are picked; the model itself is never asked.
    """

    why_not = "it is published for classes of images or of their pixels; use default"
    labeled_state, hidden = 1.0, (512, 512)


@register(
    "sraal",
    gist="images that look unlabeled, by how unsure they are",
    formula="largest D(mu(x)), D being trained to give 0 for labeled codes and 1 - m MINVar(m) / Var(p), "
    "m = max p, for unlabeled ones",
    needs=("images", "labeled set", "probabilities", "extra training"),
    cost="as vaal, with a wider code and a target learner, and one forward pass of the model",
    paper="Zhang et al., State-Relabeling Adversarial Active Learning, CVPR 2020",
    when="vaal is affordable, and the model's own uncertainty shall count beside novelty",
)
@dataclass(frozen=True, kw_only=True)
class SRAAL(Autoencoding):
    """A generator learns codes that both rebuild the images and predict the labels, while a discriminator learns
    their state: 0 if labeled, else how uncertain the model is. The images of the highest predicted state are picked.

    Segmentation: the uncertainty is the mean over the pixels, and the labels that are predicted are maps.
    """

    why_not = "its states need one class for each image or pixel; use default"
    labeled_state, hidden, decay = 0.0, (512, 512, 512, 512), 0.85

    batch: int = 250
    """Images of each set in a step."""
    latent: int = 200
    """The first half is decoded, the second half predicts the target."""
    reconstruction: float = 5.0
    """Weight of the pixels' squared error."""
    supervision: float = 5.0
    """Weight of the task's loss on labeled images."""

    def row_estimate(self, context: QueryContext) -> Estimate:
        """As all autoencoders, and one pass of the model over the pool."""
        return replace(super().row_estimate(context), passes=len(context.pool))

    def states(self, context: QueryContext) -> Tensor:
        """Return how uncertain the model is of each image, (n,)."""
        return context.score(uncertainty, "uncertainty").float().cpu()

    def generator(self, context: QueryContext, frame: Frame) -> Generator:
        """Return a generator of images and of targets of the model's outputs' shape."""
        return Generator(frame, self.latent, tuple(context.runner.example_outputs.shape))

    def image_losses(self, images: Tensor, decoded: Tensor) -> Tensor:
        """Return the weighted loss of each decoded image, (n,)."""
        return self.reconstruction * squared_error(images, decoded)

    def target_loss(self, context: QueryContext, frame: Frame) -> TargetLoss:
        """Return the weighted loss of predicted targets."""
        targets = resized_targets(context.needs_labeled(self.name).targets(), frame.side)

        def loss(predicted: Tensor | None, labeled: Tensor) -> Tensor:
            assert predicted is not None
            right = targets[labeled].to(context.device)
            return self.supervision * context.task.losses(predicted[: len(labeled)], right).mean()

        return loss


def uncertainty(probabilities: Tensor) -> Tensor:
    """The online uncertainty indicator of distributions (..., c): 1 if uniform, towards 0 if certain, (...).

    It is 1 - m MINVar / Var, where m is the largest probability, Var the distribution's variance, and MINVar
    the least variance that one with this m can have.
    """
    p = probabilities.double()
    c, m = p.shape[-1], p.amax(-1)
    variance = (p - 1 / c).square().mean(-1)
    least = (m - 1 / c).square() / (c - 1)  # all others equal
    uniform = variance < 1e-12  # 0 / 0 but for rounding
    return 1 - torch.where(uniform, 0.0, m * least / variance.where(~uniform, 1.0))


def resized_targets(targets: Tensor, side: int) -> Tensor:
    """Targets on the CPU; maps (m, height, width) at the images' size, by nearest pixels."""
    if targets.ndim != 3:
        return targets.cpu()
    return F.interpolate(targets[:, None].float().cpu(), (side, side), mode="nearest")[:, 0].long()
