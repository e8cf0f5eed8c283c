"""VAAL and SRAAL: autoencoders against a discriminator that tells labeled from unlabeled images."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Embedded, Estimate
from jostle.inference.context import QueryContext
from jostle.strategies.autoencoders import (
    Autoencoding,
    Encoder,
    Frame,
    code_divergence,
    decoder,
    descend,
    discriminator,
    discriminator_logits,
    mean_of_both_sets,
    paired_batches,
    sampled_codes,
    seeded_network,
    squared_error,
    standardize,
    state_losses,
)
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

TASKS = (*CLASS_TASKS, "segmentation")
WHY_NOT = "it needs one class for each image or pixel; use default"


@register(
    "vaal",
    gist="images that look least like labeled ones",
    formula="largest -ln D(mu(x)), D being trained to give 1 for labeled codes and 0 for unlabeled ones",
    needs=("images", "labeled set", "extra training"),
    tasks=TASKS,
    cost="trains an autoencoder of 23 million weights (light: 0.3 million) for `steps` steps; a GPU's work",
    paper="Sinha et al., Variational Adversarial Active Learning, ICCV 2019",
    when="the pool holds kinds of images that the labeled set lacks, and the model is not to be trusted yet",
)
@dataclass(frozen=True, kw_only=True)
class VAAL(Autoencoding):
    """A variational autoencoder learns codes of all images while a discriminator learns to tell labeled codes
    from unlabeled ones. The images that look least labeled are picked; the model itself is never asked.

    Both sets pass the autoencoder together: BatchNorm would give a set away that passes alone.
    """

    beta: float = 1.0
    """Weight of the codes' divergence, as published; 0.1 lets codes keep more of the images."""
    adversary: float = 1.0
    """Weight of fooling the discriminator."""

    def embedding(self, context: QueryContext) -> Embedded:
        """How unlabeled each image of the pool looks."""
        context.check_task("vaal", TASKS, WHY_NOT)
        labeled = context.needs_labeled("vaal")
        frame = self.frame(context, "vaal")
        known, new = frame.read(context, labeled.inputs), frame.read(context, context.pool)
        standardize(known, new)
        encoder, judge = self.train(context, frame, known, new)
        logits = discriminator_logits(new, encoder, judge, context, self.batch)
        return Embedded(F.softplus(-logits))  # -ln D, which does not saturate as 1 - D would

    @torch.enable_grad()
    def train(
        self, context: QueryContext, frame: Frame, known: Tensor, new: Tensor
    ) -> tuple[Encoder, nn.Module]:
        """Encoder and discriminator, trained against each other."""
        vae = seeded_network(lambda: VAE(frame, self.latent), context, "vaal")
        judge = seeded_network(lambda: discriminator(self.latent, hidden=2), context, "discriminator")
        vae_adam = torch.optim.Adam(vae.parameters(), self.learning_rate)
        judge_adam = torch.optim.Adam(judge.parameters(), self.learning_rate)
        noise = context.rng("codes")
        batches = paired_batches(context, len(known), len(new), self.batch)
        steps = self.number_of_steps(len(known) + len(new))
        with context.progress("training vaal", steps) as advance:
            for _ in range(steps):
                for _ in range(2):
                    old, other = next(batches)
                    images = torch.cat([known[old], new[other]]).to(context.device)
                    decoded, mean, log_variance = vae(images, noise)
                    losses = squared_error(images, decoded) + self.beta * code_divergence(mean, log_variance)
                    fooled = state_losses(judge(mean), torch.ones_like(losses))  # both shall look labeled
                    descend(vae_adam, mean_of_both_sets(losses + self.adversary * fooled, len(old)))
                with torch.no_grad():
                    mean, _ = vae.encoder(images)
                states = torch.cat([torch.ones(len(old)), torch.zeros(len(other))]).to(context.device)
                descend(judge_adam, mean_of_both_sets(state_losses(judge(mean), states), len(old)))
                advance(1)
        return vae.encoder, judge


class VAE(nn.Module):
    """A variational autoencoder."""

    def __init__(self, frame: Frame, latent: int) -> None:
        super().__init__()
        self.encoder = Encoder(frame, latent)
        self.decoder = decoder(frame, latent)

    def forward(self, images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Images -> images decoded from drawn codes, and the codes' means and log-variances."""
        mean, log_variance = self.encoder(images)
        return self.decoder(sampled_codes(mean, log_variance, rng)), mean, log_variance


DECAY, DECAYS = 0.85, 30  # the learning rate falls by 0.85, 30 times in a run: every 666 of 20,000 steps


@register(
    "sraal",
    gist="images that look unlabeled, by how unsure they are",
    formula="largest D(mu(x)), D being trained to give 0 for labeled codes and 1 - m MINVar(m) / Var(p), "
    "m = max p, for unlabeled ones",
    needs=("images", "labeled set", "probabilities", "extra training"),
    tasks=TASKS,
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

    batch: int = 250
    """Images of each set in a step."""
    latent: int = 200
    """The first half is decoded, the second half predicts the target."""
    reconstruction: float = 5.0
    """Weight of the pixels' squared error."""
    beta: float = 1.0
    """Weight of the codes' divergence."""
    supervision: float = 5.0
    """Weight of the task's loss on labeled images."""
    adversary: float = 1.0
    """Weight of fooling the discriminator."""

    def row_estimate(self, context: QueryContext) -> Estimate:
        """As all autoencoders, and one pass of the model over the pool."""
        return replace(super().row_estimate(context), passes=len(context.pool))

    def embedding(self, context: QueryContext) -> Embedded:
        """How much labeling each image of the pool would change its state."""
        context.check_task("sraal", TASKS, WHY_NOT)
        labeled = context.needs_labeled("sraal")
        frame = self.frame(context, "sraal")
        uncertain = context.score(uncertainty, "uncertainty").float().cpu()  # (n,)
        known, new = frame.read(context, labeled.inputs), frame.read(context, context.pool)
        standardize(known, new)
        targets = resized_targets(labeled.targets(), frame.side)
        encoder, judge = self.train(context, frame, known, targets, new, uncertain)
        logits = discriminator_logits(new, encoder, judge, context, self.batch)
        return Embedded(F.softplus(logits))  # -ln(1 - D), which does not saturate as D would

    @torch.enable_grad()
    def train(
        self,
        context: QueryContext,
        frame: Frame,
        known: Tensor,
        targets: Tensor,
        new: Tensor,
        uncertain: Tensor,
    ) -> tuple[Encoder, nn.Module]:
        """Encoder and discriminator, trained against each other."""
        steps, task, device = self.number_of_steps(len(known) + len(new)), context.task, context.device
        generator = seeded_network(
            lambda: Generator(frame, self.latent, tuple(context.runner.example_outputs.shape)),
            context,
            "sraal",
        )
        judge = seeded_network(lambda: discriminator(self.latent, hidden=4), context, "discriminator")
        adams = [torch.optim.Adam(net.parameters(), self.learning_rate) for net in (generator, judge)]
        rates = [
            torch.optim.lr_scheduler.LambdaLR(a, lambda s: DECAY ** (DECAYS * s // steps)) for a in adams
        ]
        noise = context.rng("codes")
        batches = paired_batches(context, len(known), len(new), self.batch)
        with context.progress("training sraal", steps) as advance:
            for _ in range(steps):
                for _ in range(2):
                    old, other = next(batches)
                    images = torch.cat([known[old], new[other]]).to(device)
                    decoded, predicted, mean, log_variance = generator(images, noise)
                    losses = self.reconstruction * squared_error(images, decoded)
                    losses = losses + self.beta * code_divergence(mean, log_variance)
                    fooled = state_losses(judge(mean), torch.zeros_like(losses))  # both shall look labeled
                    right = task.losses(predicted[: len(old)], targets[old].to(device)).mean()
                    unsupervised = mean_of_both_sets(losses + self.adversary * fooled, len(old))
                    descend(adams[0], unsupervised + self.supervision * right)
                with torch.no_grad():
                    mean, _ = generator.encoder(images)
                states = torch.cat([torch.zeros(len(old)), uncertain[other]]).to(device)
                descend(adams[1], mean_of_both_sets(state_losses(judge(mean), states), len(old)))
                for rate in rates:
                    rate.step()
                advance(1)
        return generator.encoder, judge


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


class Generator(nn.Module):
    """An encoder whose code is half for the images and half for the targets."""

    def __init__(self, frame: Frame, latent: int, outputs: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder = Encoder(frame, latent)
        self.split = latent // 2
        self.decoder = decoder(frame, self.split)
        self.learner = target_learner(frame, latent - self.split, outputs)

    def forward(self, images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Images -> images decoded and targets predicted from drawn codes, the codes' means and log-variances."""
        mean, log_variance = self.encoder(images)
        code = sampled_codes(mean, log_variance, rng)
        return self.decoder(code[:, : self.split]), self.learner(code[:, self.split :]), mean, log_variance


def target_learner(frame: Frame, latent: int, outputs: tuple[int, ...]) -> nn.Sequential:
    """Codes -> what the model gives, of this shape: classes, or maps of them."""
    if len(outputs) > 2 and max(outputs[2:]) > 1:
        return decoder(frame, latent, channels=outputs[1])
    widths = (latent, 1024, 256)
    hidden = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(
        *(part for layer in hidden for part in layer), nn.Linear(256, math.prod(outputs[1:]))
    )


def resized_targets(targets: Tensor, side: int) -> Tensor:
    """Targets on the CPU; maps (m, height, width) at the images' size, by nearest pixels."""
    if targets.ndim != 3:
        return targets.cpu()
    return F.interpolate(targets[:, None].float().cpu(), (side, side), mode="nearest")[:, 0].long()
