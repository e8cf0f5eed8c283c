"""LDM-S (Cho et al., ICLR 2024): examples whose prediction the smallest change of the last layer flips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from jostle.core import Embedded, Estimate, Strategy, feature_estimate
from jostle.inference.context import QueryContext
from jostle.selectors import Picks
from jostle.selectors.base import block_room
from jostle.selectors.clusters import unit_in_float64
from jostle.selectors.top_k import largest_first
from jostle.strategies.alfa_mix import head_function
from jostle.strategies.falcun import drawn
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

SCALES = tuple(10 ** (power / 10) for power in range(-50, 1))  # standard deviations of the noise, 1e-5 to 1
COPIES = 1e-5  # cosine distances below count as 0


@register(
    "ldm-s",
    gist="predictions that the smallest change flips",
    formula="L(x) = min_{w ~ N(v, s^2 I), flips x} share of the pool that w flips; draws by "
    "(gamma d)^2, gamma = exp(-(L - L_n)_+ / L_n), d the cosine distance to the batch",
    needs=("weights", "probabilities", "features"),
    cost="one forward pass, then the last layer alone for at least 51 x 10 perturbations",
    paper="Cho et al., Querying Easily Flip-flopped Samples for Deep Active Learning, ICLR 2024",
    when="the nearest published relative of noise stability that looks at the last layer alone",
)
@dataclass(frozen=True, kw_only=True)
class LdmS(Strategy):
    """The least disagree metric of an example is the smallest share of predictions that changes together with its
    own. Noise of 51 sizes on the last layer gives it, and draws among the smallest keep the batch diverse.

    The pool itself stands for the distribution of inputs. A score is the metric: smaller is nearer to a boundary.
    """

    ranges: ClassVar = {"patience": "[1, inf)"}
    serves = CLASS_TASKS
    why_not = "it follows the predicted class of an example; use default"
    patience: int = 10
    """Perturbations of one size in a row that lower no metric before the next size follows."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Least disagree metrics, (n,)."""
        return Embedded(self.features_and_metric(context)[1])

    def query(self, context: QueryContext, n: int) -> Picks:
        """Take the smallest metric, then draw by metric and distance to the batch."""
        with context.timed("embedding"):
            features, metric = self.features_and_metric(context)
        with context.selecting(n) as advance:
            draws, rows = context.rng("ldm-s", "seeding", device="cpu"), unit_in_float64(features)
            order = largest_first(-metric, context.seed)
            weights = seeding_weights(metric, order, n)
            positions = [int(order[0])]
            apart = cosine_distances(rows, positions[0])
            while len(positions) < n:
                advance(1)
                chances = (weights * apart).square()
                chances[positions] = 0
                if chances.sum() > 0:
                    positions.append(drawn(chances.cpu(), draws))
                    apart = torch.minimum(apart, cosine_distances(rows, positions[-1]))
                else:  # copies of the batch alone are left
                    rest = order[~torch.isin(order, torch.tensor(positions, device=order.device))]
                    positions += rest[: n - len(positions)].tolist()
            chosen = torch.tensor(positions, device=metric.device)
            return Picks(chosen, metric[chosen])

    def features_and_metric(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Features (n, d) and least disagree metrics (n,)."""
        head_function(context, "ldm-s")  # an error where the head is not all that follows the features
        module = context.runner.module.get_submodule(context.runner.head)
        if not isinstance(module, nn.Linear):
            raise ValueError(f"ldm-s perturbs a linear layer; the head is {type(module).__name__}")
        features = context.features(context.pool)
        bias = module.weight.new_zeros(len(module.weight)) if module.bias is None else module.bias

        def predicted(weight: Tensor, bias: Tensor) -> Tensor:
            return context.task.logits(features @ weight.T + bias).argmax(1)

        with torch.no_grad():
            draws = context.rng("ldm-s", "noise", device="cpu")
            return features, least_disagreement(predicted, module.weight, bias, draws, self.patience)

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Features from one pass; the last layer runs hundreds of times."""
        made = feature_estimate(context, 8 * (context.feature_width + context.classes + 4), labeled=False)
        heads = f"at least {len(SCALES) * self.patience} passes of the last layer"
        room = 0 if n is None else block_room(made.passes, made.width)
        return replace(made, may_spill=False, selecting=room, extra_work=heads)


def least_disagreement(
    predicted: Callable[[Tensor, Tensor], Tensor],
    weight: Tensor,
    bias: Tensor,
    draws: torch.Generator,
    patience: int,
) -> Tensor:
    """Return the smallest share of flipped predictions among perturbations that flip each example, (n,); else 1."""
    clean = predicted(weight, bias)
    metric = torch.ones(len(clean), dtype=torch.float64, device=clean.device)
    for scale in SCALES:
        idle = 0
        while idle < patience:
            noise = [torch.randn(part.shape, generator=draws).to(part) * scale for part in (weight, bias)]
            flipped = predicted(weight + noise[0], bias + noise[1]) != clean
            lower = flipped & (metric > flipped.double().mean())
            metric[lower] = flipped.double().mean()
            idle = 0 if lower.any() else idle + 1
    return metric


def seeding_weights(metric: Tensor, order: Tensor, n: int) -> Tensor:
    """Return gamma (n,): exp(-(L - L_n)_+ / L_n), that of all but the n smallest scaled to a sum of n, at most 1.

    Args:
        metric: L of each example, (size,).
        order: Positions by growing L, (size,).
        n: The number of picks.
    """
    least = metric[order[min(n, len(order) - 1)]]
    if least == 0:
        least = metric[metric > 0].min() if (metric > 0).any() else torch.ones_like(least)
    gamma = (-(metric - least).clamp(min=0) / least).exp()
    rest = order[n:]
    if len(rest):
        gamma[rest] *= n / gamma[rest].sum()
    return gamma.clamp(max=1)


def cosine_distances(rows: Tensor, position: int) -> Tensor:
    """Return the cosine distance of rows of unit length to one of them, (n,)."""
    apart = 1 - rows @ rows[position]
    return torch.where(apart < COPIES, 0, apart)
