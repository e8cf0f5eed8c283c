"""VAAL: an autoencoder tries to make labeled and unlabeled images look alike to a discriminator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Embedded
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
WHY_NOT = "it is published for classes of images or of their pixels; use default"


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
