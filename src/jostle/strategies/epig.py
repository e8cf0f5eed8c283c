"""EPIG (Bickford Smith et al., AISTATS 2023): labels that say most about predictions one cares about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from jostle.core import Choice, Embedded, Embedding, Estimate
from jostle.embeddings.committee import QueryByCommittee
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.dropout import Bald
from jostle.embeddings.uncertainty import entropy
from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, Pool
from jostle.rows.geometry import BLOCK_NUMBERS
from jostle.selectors import top_k
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS


@register(
    "epig",
    gist="labels that say most about the test predictions",
    formula="mean_{x*} [H(y) + H(y*) - H(y, y*)], p(y, y*) = mean_k p_k(y) p_k(y*) over K samples of the weights; "
    "regression: -1/2 mean ln(1 - rho^2)",
    needs=("weights", "probabilities"),
    cost="K forward passes over pool and targets, then O(n t c^2 K) for t targets",
    paper="Bickford Smith et al., Prediction-Oriented Bayesian Active Learning, AISTATS 2023",
    when="the inputs that matter differ from the pool: name them with target=; one at a time, since the largest of a "
    "batch are alike",
)
@dataclass(frozen=True, kw_only=True)
class Epig(Embedding):
    """Take the examples whose labels tell most about predictions for target inputs: their mutual information under
    samples of the weights. BALD asks about the weights instead, and so likes examples that matter nowhere else.

    Samples of the weights come from perturbations of the parameters, dropout or a committee. The published method
    takes one example at a time; here the n largest are picked.
    """

    ranges: ClassVar = {
        "posterior": ("perturbations", "dropout", "committee"),
        "samples": "[2, inf)",
        "targets": "[1, inf)",
        "noise_scale": "(0, inf)",
    }
    serves = (*CLASS_TASKS, "regression")
    why_not = "it follows one output for each example; use default"
    selector: Choice = top_k
    target: Any = None
    """The inputs one cares about, in any form that a pool has; None: `targets` examples of the pool, drawn."""
    targets: int = 256
    """How many examples of the pool stand for its distribution where `target` is None."""
    posterior: str = "perturbations"
    """Where samples of the weights come from: "perturbations", "dropout" (classes only) or "committee"."""
    samples: int = 20
    """K, samples of the weights; a committee has its members."""
    noise_scale: float = 0.1
    """Length of a perturbation relative to that of the parameters."""
    members: Sequence[nn.Module] | None = None
    """The committee, trained; None: it is trained by fit=."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Expected predictive information gains, (n,)."""
        target, size = self.target_pool(context), len(context.pool)
        sampled = self.sampled(context, target)  # (n + t, K, c)
        if not context.task.has_classes:
            return Embedded(gaussian_epig(sampled[:size], sampled[size:]))
        return Embedded(categorical_epig(sampled[:size], sampled[size:]))

    def target_pool(self, context: QueryContext) -> Pool:
        """The inputs whose predictions matter."""
        if self.target is not None:
            return Pool.of(
                self.target, context.options.get("collate_fn"), context.options.get("num_workers", 0)
            )
        draws = context.rng("epig", "targets", device="cpu")
        order = torch.randperm(len(context.pool), generator=draws, device="cpu")
        return context.pool.take(order[: self.targets].sort().values)

    def sampled(self, context: QueryContext, target: Pool) -> Tensor:
        """Distributions, or numbers of a regression, of pool and targets under each sample, (n + t, K, c)."""
        if self.posterior == "dropout":
            return torch.cat([self.dropout(context, pool) for pool in (context.pool, target)])
        if self.posterior == "committee":
            members = QueryByCommittee(members=self.members).networks(context)

            def read(inputs: Inputs) -> tuple[Tensor]:
                outputs = (member.outputs(member.prepared(inputs)) for member in members)
                return (torch.stack([self.rows(context, each) for each in outputs], 1),)

            return context.compute(read, context.pool, target, what=f"{len(members)} members")[0]
        noise = Deviations(noise_scale=self.noise_scale, space="logits").perturbations(
            context, context.runner.outputs
        )

        def perturbed(inputs: Inputs) -> tuple[Tensor]:
            return (self.rows(context, context.runner.outputs(inputs)),)

        found = list[Tensor]()
        for k in range(self.samples):
            with noise.applied(k):
                name = f"perturbation {k + 1} of {self.samples}"
                found += context.compute(perturbed, context.pool, target, what=name)
        return torch.stack(found, 1)

    def rows(self, context: QueryContext, outputs: Tensor) -> Tensor:
        """Outputs as distributions (n, c), or as numbers of a regression, in double precision."""
        if not context.task.has_classes:
            return outputs.double().reshape(len(outputs), -1)
        return context.reader.probabilities(outputs.double())

    def dropout(self, context: QueryContext, pool: Pool) -> Tensor:
        """Distributions of the examples of a `pool` under each dropout pass, (n, K, c)."""
        context.check_task("epig with dropout", CLASS_TASKS, "dropout passes give distributions over classes")
        own, passes = context.pool, Bald(passes=self.samples)
        context.pool = pool
        try:
            return passes.rows(context, lambda found, _: torch.cat(list(found), dim=1))
        finally:
            context.pool = own

    def row_estimate(self, context: QueryContext) -> Estimate:
        """K passes over pool and targets; all distributions are in memory."""
        count = 5 if self.members is None else len(self.members)
        count = count if self.posterior == "committee" else self.samples
        t = min(self.targets, len(context.pool)) if self.target is None else len(self.target_pool(context))
        size, c = len(context.pool) + t, context.runner.example_outputs[0].numel()
        held = 8 * size * count * max(2, c)
        return Estimate(
            passes=count * size,
            rows=2 * held,
            working=held + 16 * BLOCK_NUMBERS,
            what=f"{count} predictions of each of {size:,} examples",
            suggestions=(f"samples={max(2, self.samples // 4)}: rougher scores for a quarter of the passes",),
        )


def categorical_epig(pool: Tensor, target: Tensor) -> Tensor:
    """Return the mean mutual information of a label and the labels of targets, (n,).

    Args:
        pool: Distributions under each sample, (n, K, c).
        target: Distributions of targets under the same samples, (t, K, c).
    """
    (t, k, c), found = target.shape, pool.new_empty(len(pool))
    columns = target.permute(1, 0, 2).reshape(k, t * c)  # (K, t c)
    expected = entropy(target.mean(1)).mean()
    step = max(1, BLOCK_NUMBERS // (t * c * c))
    for start in range(0, len(pool), step):
        part = pool[start : start + step]  # (b, K, c)
        joint = part.mT @ columns / k  # (b, c, t c): p(y, y*)
        of_both = torch.special.entr(joint).sum((1, 2)) / t
        found[start : start + step] = entropy(part.mean(1)) + expected - of_both
    return found.clamp(min=0)


def gaussian_epig(pool: Tensor, target: Tensor) -> Tensor:
    """Return -1/2 ln(1 - rho^2) of numbers and those of targets, averaged over targets and outputs, (n,).

    Observations have noise as large as the mean variance over the pool, so that nothing is known for sure.

    Args:
        pool: Numbers under each sample, (n, K, o).
        target: Numbers of targets under the same samples, (t, K, o).
    """
    found = pool.new_zeros(len(pool))
    for output in range(pool.shape[2]):
        a, b = (rows[:, :, output] - rows[:, :, output].mean(1, keepdim=True) for rows in (pool, target))
        noise = a.square().mean()
        if noise == 0:
            continue
        va, vb = (rows.square().mean(1) + noise for rows in (a, b))  # (n,), (t,)
        rho2 = (a @ b.T / a.shape[1]).square() / (va[:, None] * vb)  # (n, t)
        found += -0.5 * torch.log1p(-rho2).mean(1) / pool.shape[2]
    return found
