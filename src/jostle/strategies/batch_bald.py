"""BatchBALD: batches chosen for what all their labels together tell about the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Estimate
from jostle.embeddings.committee import jensen_shannon
from jostle.embeddings.dropout import TOO_MANY_SITES, DropoutPasses
from jostle.embeddings.uncertainty import entropy
from jostle.inference.context import QueryContext
from jostle.rng import fresh_seed, generator
from jostle.rows.geometry import Rows
from jostle.selectors import Picks, Selector, selector
from jostle.selectors.base import WORD, check_pickable
from jostle.selectors.top_k import largest_first, order_of_ties
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS
from jostle.utils.progress import note

ROWS, PICKS = 256, 12  # distributions among which selection is tried for a plan, and how many it picks
BLOCK_NUMBERS = 2**20  # probabilities held at once while candidates are compared
BLOCK_ROWS = 64  # candidates compared at once: the bound spares most of those that follow


@dataclass(frozen=True)
class JointInformation(Selector):
    """Greedily adds the row (T, c) whose label, beside those of the rows before it, tells most about the pass.

    Exact while the joint distribution has at most `exact` entries, then over `samples` drawn label combinations.
    A score is what the pick's label adds in nats. Scores add up to ln T at most: once no label adds anything,
    the rest goes by what each label tells alone.
    """

    ranges: ClassVar = {"exact": "[1, inf)", "samples": "[1, inf)"}
    exact: int = 100_000
    """The most entries c^b of the joint distribution of b labels that are held; beyond, combinations are drawn."""
    samples: int = 10_000
    """How many combinations of labels are drawn beyond `exact`."""

    def pick(self, rows: Rows, n: int, *, centers: Rows | None = None, seed: int | None = None) -> Picks:
        """Pick n rows of (n, T, c)."""
        if not isinstance(rows, Tensor) or rows.ndim != 3:
            raise ValueError(
                f"rows must be distributions (n, T, c); got {getattr(rows, 'shape', type(rows))}"
            )
        check_pickable(n, len(rows))
        alone = torch.cat([jensen_shannon(block.unbind(1)) for block in rows.split(BLOCK_ROWS)])  # (n,)
        seed = fresh_seed() if seed is None else seed
        draws = generator(seed, "batch-bald", device=rows.device)
        labels, bounds, gains = Labels.none(rows), alone.clone(), alone.new_zeros(n)
        order, ties = largest_first(alone, seed), order_of_ties(alone, seed)
        positions = order[:n].clone()
        for b in range(n):
            best = labels.best(rows, bounds, ties)
            if bounds[best] < labels.rounding:
                positions[b:] = order[~torch.isin(order, positions[:b])][: n - b]
                break
            positions[b], gains[b], bounds[best] = best, bounds[best], -torch.inf
            labels = labels.with_label_of(rows[best].double(), self, draws)
            note(1)
        return Picks(positions, gains)

    def room(self, size: int, width: int, n: int) -> int:
        """As `room_of`, of two classes, which make most combinations."""
        return self.room_of(size, max(1, width // 2), 2)

    def room_of(self, size: int, passes: int, classes: int) -> int:
        """Return the bytes of labels, and of combinations of labels for each pass.

        Args:
            size: How many examples there are.
            passes: Distributions of each.
            classes: Labels that each can have.
        """
        combinations = max(self.exact // classes, self.samples)
        return WORD * (6 * size + 3 * combinations * passes + 3 * BLOCK_NUMBERS)


@dataclass(frozen=True)
class Labels:
    """Combinations of the labels of the rows picked so far, and what each says about the pass."""

    weights: Tensor  # (m,) probability of each combination
    passes: Tensor  # (m, T) probability of each pass, given the combination
    drawn: bool = False  # a sample, all combinations weighing alike; otherwise all there are

    @property
    def rounding(self) -> float:
        """Nats below which a label adds nothing but rounding."""
        return 1e-5 if self.drawn else 1e-12

    @classmethod
    def none(cls, rows: Tensor) -> Labels:
        """The empty combination, under which every pass is as likely."""
        passes = torch.full((1, rows.shape[1]), 1 / rows.shape[1], dtype=torch.float64, device=rows.device)
        return cls(passes.new_ones(1), passes)

    def best(self, rows: Tensor, bounds: Tensor, ties: Tensor) -> int:
        """The row that adds most; `bounds` are what rows added before, and change to what those looked at add now.

        A label never adds more when others are known, so rows whose bound is below the best need no look.
        """
        order = ties[bounds[ties].argsort(descending=True, stable=True)]
        order = order[bounds[order].isfinite()]  # picked rows are at minus infinity
        top = -torch.inf
        for block in order.split(
            max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // (len(self.weights) * rows.shape[2])))
        ):
            if bounds[block[0]] < top:
                break
            bounds[block] = self.added(rows[block])
            top = max(top, float(bounds[block].max()))
        return int(ties[bounds[ties].argmax()])

    def added(self, rows: Tensor) -> Tensor:
        """I(label; pass | labels so far) of each row: H(label | labels so far) - H(label | pass), (b,)."""
        b, T, c = rows.shape
        flat = rows.transpose(0, 1).reshape(T, b * c).to(self.passes.dtype)
        p = (self.passes @ flat).clamp_(min=torch.finfo(flat.dtype).tiny)  # (m, b * c)
        known = (self.weights @ p.log().mul_(p)).view(b, c).sum(1)  # minus the entropy of the label
        return -known.double() - entropy(rows.double()).mean(1)

    def with_label_of(self, row: Tensor, limits: JointInformation, draws: torch.Generator) -> Labels:
        """Every combination with every label of the row (T, c), or a sample of these where they are too many."""
        c = row.shape[1]
        if not self.drawn and len(self.weights) * c * c <= limits.exact:
            together = self.weights[:, None] * (self.passes @ row)  # (m, c)
            passes = self.passes[:, None, :] * row.T  # (m, c, T)
            return Labels(together.flatten(), rows_of_sum_one(passes.flatten(0, 1)))
        passes, row = self.passes.float(), row.float()  # the sample is off by more than rounding
        if not self.drawn:
            passes = passes[
                torch.multinomial(self.weights, limits.samples, replacement=True, generator=draws)
            ]
        label = torch.multinomial(passes @ row, 1, generator=draws)[:, 0]  # (m,)
        weights = passes.new_full((len(passes),), 1 / len(passes))
        return Labels(weights, rows_of_sum_one(passes * row.T[label]), drawn=True)


def rows_of_sum_one(passes: Tensor) -> Tensor:
    """Rows that sum to 1; a combination that cannot happen keeps zeros and weighs nothing."""
    return passes / passes.sum(1, keepdim=True).clamp(min=torch.finfo(passes.dtype).tiny)


@register(
    "batch-bald",
    gist="BALD for a whole batch at once",
    formula="I(y_1, ..., y_b; w) over T dropout passes, one example at a time: the label that adds most to the "
    "information of those before it",
    needs=("probabilities", "dropout"),
    cost="T forward passes, then O(m T c) per candidate looked at, m up to 10,000 label combinations; "
    "n T c numbers in memory",
    paper="Kirsch et al., BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active Learning, "
    "NeurIPS 2019",
    when="small batches and many passes: T passes can tell ln T nats, a few dozen labels at most",
)
@dataclass(frozen=True, kw_only=True)
class BatchBald(DropoutPasses):
    """Take the batch whose labels together tell most about the weights, one example after another. A copy of what
    is already in the batch adds little, where bald would take both.
    """

    serves = CLASS_TASKS
    why_not = f"one label for each example is needed. {TOO_MANY_SITES}"
    selector: Choice = JointInformation()

    def embedding(self, context: QueryContext) -> Embedded:
        """Distributions of all passes, (n, T, c)."""
        return Embedded(self.rows(context, lambda passes, _: torch.cat(list(passes), dim=1)))

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Estimate the passes and the combinations of labels."""
        made, picker = super().estimate(context, n), selector(self.selector)
        if n is None or not isinstance(picker, JointInformation):
            return made
        return replace(made, selecting=picker.room_of(len(context.pool), self.passes, context.classes))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """A distribution for each example and pass."""
        made, numbers = super().row_estimate(context), self.passes * context.classes
        what = f"{self.passes} distributions of each of {len(context.pool):,} examples, and selection"
        return replace(made, rows=made.rows * numbers, width=numbers, may_spill=True, what=what)
