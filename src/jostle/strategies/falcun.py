"""FALCUN (Gilhuber et al., ECML PKDD 2024): uncertain, and unlike the batch in its probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, score_estimate
from jostle.embeddings.uncertainty import DISTRIBUTIONS, NO_CLASSES, Probabilities, small_margin
from jostle.inference.context import QueryContext
from jostle.rng import generator
from jostle.rows.geometry import Rows
from jostle.selectors import Picks, Weighing
from jostle.selectors.base import WORD, checked_weights, dense_rows, seed_or_fresh
from jostle.strategies.registry import register
from jostle.utils.progress import note


@dataclass(frozen=True)
class ContrastiveDraws(Weighing):
    """Draws rows one by one, with chances (u + d)^gamma of their weight u and their distance d from the batch.

    d is the smallest L1 distance to a row of the batch, u before there is one, scaled to 0..1 among the rest.
    """

    ranges: ClassVar = {"gamma": "[0, inf)"}
    uses_centers = False

    gamma: float = 10.0
    """How much the largest sums are preferred; 0 is random."""

    def pick(
        self,
        rows: Rows,
        n: int,
        *,
        centers: Rows | None = None,
        seed: int | None = None,
        weights: Tensor | None = None,
    ) -> Picks:
        """Pick n rows; a pick's score is u + d when it was drawn."""
        rows, _ = dense_rows("contrastive draws", rows, n)
        u = checked_weights(weights, rows).double()
        draws = generator(seed_or_fresh(seed), "falcun")
        nearest, left = u.clone(), torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        positions, scores = list[int](), list[float]()
        for _ in range(n):
            places = left.nonzero()[:, 0]
            relevance = scaled(nearest[places]) + u[places]
            chances = (relevance / relevance.max().clamp(min=1e-300)).pow(self.gamma).cpu()
            chances = chances if chances.sum() > 0 else torch.ones_like(chances)
            turn = drawn(chances, draws)
            positions.append(int(places[turn]))
            scores.append(float(relevance[turn]))
            left[positions[-1]] = False
            nearest = torch.minimum(nearest, (rows - rows[positions[-1]]).abs().sum(1).double())
            note(1)
        return Picks.of(positions, scores, rows.device)

    def room(self, size: int, width: int, n: int) -> int:
        """Return the bytes of distances and chances."""
        return WORD * size * (2 * width + 8)


def scaled(values: Tensor) -> Tensor:
    """Return values scaled to 0..1; zeros where all are equal."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else torch.zeros_like(values)


def drawn(chances: Tensor, draws: torch.Generator) -> int:
    """Return a position drawn in proportion to the chances, (n,)."""
    steps = chances.double().cumsum(0)
    luck = torch.rand((), generator=draws, dtype=torch.float64, device=draws.device).cpu() * steps[-1]
    return min(int(torch.searchsorted(steps, luck, right=True)), int(chances.nonzero()[-1]))


@register(
    "falcun",
    gist="unsure, and unlike the batch in its probabilities",
    formula="draws by (u + d)^gamma, u = 1 - (p_(1) - p_(2)), d = min_{j in batch} |p - p_j|_1 (at first u), scaled to "
    "0..1",
    needs=("probabilities",),
    cost="one forward pass, then O(n c) per pick",
    paper="Gilhuber et al., FALCUN: A Simple and Efficient Deep Active Learning Strategy, ECML PKDD 2024",
    when="batches at the price of margin, and no features are at hand",
)
@dataclass(frozen=True, kw_only=True)
class Falcun(Embedding):
    """Draw examples that are uncertain and whose probabilities differ from those of the batch so far.
    Distances shrink as the batch grows, so that draws go from what is unsure to what is different.
    """

    serves = DISTRIBUTIONS
    why_not = NO_CLASSES
    selector: Choice = ContrastiveDraws()

    def embedding(self, context: QueryContext) -> Embedded:
        """Probabilities, and margins as weights."""
        rows = Probabilities().embedding(context).rows
        assert isinstance(rows, Tensor)
        return Embedded(rows, weights=small_margin(rows.double()).to(rows.dtype))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """A distribution for each example."""
        return Probabilities().row_estimate(context) if context.classes else score_estimate(context)
