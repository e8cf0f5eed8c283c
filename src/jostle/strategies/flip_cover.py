"""FlipCover: noise says which predictions it would flip and which outputs deviate together; cover the former."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate
from jostle.inference.context import QueryContext
from jostle.inputs import Inputs, Pool
from jostle.selectors import ExplainedVariance, Picks
from jostle.selectors.base import WORD
from jostle.strategies.alfa_mix import labeled_classes
from jostle.strategies.candidates import Shortlist, Shortlisting, deviations
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS

LOSS = 0.05  # of the labeled set's accuracy that noise may cost
REGRESSION_NOISE = 1e-3
CLASS_PERTURBATIONS, REGRESSION_PERTURBATIONS = 20, 30
DOUBLINGS, HALVINGS = 60, 30


@register(
    "flip-cover",
    gist="what noise flips, covered by how outputs deviate",
    formula="argmax_i sum_j w_j C_ij^2 / (C_ii + s2), repeated; w = chance that noise flips j, C = correlation of "
    "movements given the labeled set and the picks",
    needs=("weights", "probabilities", "labeled set"),
    cost="one forward pass, K over the 20 n smallest margins and the labeled set, then O(n K c) per pick",
    paper="of this package: noise stability (Li et al., AAAI 2024) as weight and kernel of a Gaussian process",
    when="perturbations are affordable and labels are few; on regression it needs no margins",
)
@dataclass(frozen=True, kw_only=True)
class FlipCover(Shortlisting):
    """One set of perturbations gives a weight, how likely noise flips a prediction, and a kernel, how strongly two
    examples' outputs deviate together. Each pick explains most of the flip-weighted variance that labels
    and picks leave.

    Noise is as strong as the labeled set bears: the largest step that costs a twentieth of the accuracy there.
    Without a labeled set the step is that at which half of the kept predictions are likelier than not to flip. In a
    regression all examples weigh alike, and features move in place of logits.
    """

    ranges: ClassVar = {"num_perturbations": "[1, inf)", "noise": "(0, inf)"}
    serves = (*CLASS_TASKS, "regression")
    why_not = "it follows one prediction per example; use default"
    weighs: ClassVar[bool] = False  # what counts is the chance of a flip

    num_perturbations: int | None = None
    """K; None: 20, and 30 for a regression."""
    noise: float | None = None
    """The s2, the variance of a label around its value; None: 0.05, and 0.001 for a regression."""

    def embedding(self, context: QueryContext) -> Embedded:
        """The chance that noise flips each prediction, (n,); 1 in a regression."""
        everyone = torch.arange(len(context.pool), device="cpu")
        return Embedded(self.moves(context, everyone)[2])

    def among(self, context: QueryContext, short: Shortlist, n: int) -> Picks:
        """Perturb the candidates, and cover what may flip."""
        kept = short.places
        with context.timed("embedding"):
            rows, known, weights = self.moves(context, kept)
        with context.selecting(n):
            picker = self.picker(context)
            return picker.pick(rows, n, centers=known, weights=weights, seed=context.seed).at(kept)

    def number(self, context: QueryContext) -> int:
        """K, as set or as suits the task of the `context`."""
        regression = not context.task.has_classes
        return self.num_perturbations or (REGRESSION_PERTURBATIONS if regression else CLASS_PERTURBATIONS)

    def picker(self, context: QueryContext) -> ExplainedVariance:
        """Explained variance, with the noise that suits the task of the `context`."""
        regression = not context.task.has_classes
        return ExplainedVariance(self.noise or (REGRESSION_NOISE if regression else 0.05))

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """As of every shortlist, and clean logits and what the labeled set explains."""
        size, known = len(context.pool), sum(map(len, context.pools[1:]))
        made = super().estimate(context, n)
        kept = size if n is None else self.candidate_count(context, size, n)
        outputs = kept + known if context.task.has_classes else 0
        explained = 0 if n is None else 3 * WORD * min(known, made.width) ** 2
        return replace(made, passes=made.passes + outputs, selecting=made.selecting + explained)

    def moves(self, context: QueryContext, kept: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Deviations of candidates (n, K c) and labeled set (m, K c), and the candidates' weights (n,)."""
        both, size = (context.pool.take(kept), *context.pools[1:]), len(kept)
        if not context.task.has_classes:
            rows = deviations(context, self.number(context), *both)
            return rows[:size], rows[size:] if len(rows) > size else None, rows.new_ones(size)
        labeled = context.labeled is not None and len(context.labeled)
        targets = (
            labeled_classes(context, self.name) if labeled else None
        )  # checked before anything is perturbed
        number = self.number(context)
        moved = deviations(context, number, *both).unflatten(1, (number, -1))  # (n + m, K, c)
        logits = self.logits(context, *both)
        step = None if targets is None else bearable(logits[size:], moved[size:], targets)
        weights = flip_chances(logits[:size], moved[:size], step)
        return moved[:size].flatten(1), None if targets is None else moved[size:].flatten(1), weights

    def logits(self, context: QueryContext, *both: Pool) -> Tensor:
        """Clean logits, (n + m, c)."""

        def read(inputs: Inputs) -> tuple[Tensor]:
            return (context.task.logits(context.runner.outputs(inputs)),)

        return context.compute(read, *both, what="outputs")[0].double()


def bearable(logits: Tensor, moved: Tensor, targets: Tensor) -> float:
    """The largest step at which the perturbed labeled set keeps 95 % of its accuracy, over both signs."""
    targets = targets.to(logits.device)[:, None]
    goal = (1 - LOSS) * float((logits.argmax(1, keepdim=True) == targets).double().mean())

    def accuracy(step: float) -> float:
        signs = (logits[:, None] + sign * step * moved for sign in (1, -1))
        return sum(float((each.argmax(2) == targets).double().mean()) for each in signs) / 2

    low, high = 0.0, 1e-6
    for _ in range(DOUBLINGS):
        if accuracy(high) < goal:
            break
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle) >= goal else (low, middle)
    return low or high


def flip_chances(logits: Tensor, moved: Tensor, step: float | None) -> Tensor:
    """2 (1 - Phi(gap / (step rms movement of the gap))) at the nearest rival, (n,); without a step, such that the
    median example's gap is moved by as much as it is wide.
    """
    top = logits.argmax(1, keepdim=True)  # (n, 1)
    gaps = logits.gather(1, top) - logits  # (n, c)
    own = moved.gather(2, top[:, :, None].expand(-1, moved.shape[1], 1))  # (n, K, 1)
    spread = (own - moved).square().mean(1).sqrt()  # (n, c)
    limits = torch.finfo(spread.dtype)
    steps = gaps / spread.clamp(min=limits.tiny)
    steps = steps.clamp(max=limits.max)  # what never moves is not infinitely far
    nearest = steps.scatter(1, top, torch.inf).amin(1)  # steps to the nearest rival
    if step is None:
        step = float(nearest.median())
    scaled = nearest / max(step, torch.finfo(nearest.dtype).tiny)
    return torch.erfc(scaled / 2**0.5)
