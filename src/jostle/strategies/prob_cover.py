"""ProbCover (Yehuda et al., NeurIPS 2022): cover the pool with balls."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.embeddings.uncertainty import DISTRIBUTIONS
from jostle.inference.context import QueryContext
from jostle.rows.geometry import unit_length
from jostle.selectors.base import block_room
from jostle.selectors.prob_cover import prob_cover, pure_radius
from jostle.selectors.typical import k_means
from jostle.strategies.registry import register


@register(
    "prob-cover",
    gist="a cover of the pool by balls in feature space",
    formula="argmax_i |{j uncovered: ||h_i - h_j|| < delta}|, repeated; h at unit length",
    needs=("features",),
    tasks=DISTRIBUTIONS,
    cost="one forward pass, then all n^2 distances twice, in blocks",
    paper="Yehuda et al., Active Learning Through a Covering Lens, NeurIPS 2022",
    when="the very first labels, with self-supervised features given by head= as a function (model, x) -> (n, d)",
)
@dataclass(frozen=True, kw_only=True)
class ProbCover(Embedding):
    """A labeled example stands for all within a distance delta of it, in features of unit length.
    Each pick covers most of what nothing labeled or picked covers yet.

    Rows are the features divided by delta, so balls have radius 1. Without `delta` it is the largest radius at
    which a share `purity` of all balls holds rows of one k-means cell only, one cell for each class.
    """

    selector: Choice = prob_cover
    delta: float | None = None
    """Radius of a ball; None: by purity."""
    purity: float = 0.95
    """Without delta: share of balls that hold rows of one k-means cell only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta is not None and not self.delta > 0:
            raise ValueError(f"delta is the radius of a ball and above 0; got {self.delta}")
        if not 0 < self.purity <= 1:
            raise ValueError(f"purity is a share of the examples, in (0, 1]; got {self.purity}")

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of pool and labeled set, in units of delta."""
        if self.delta is None:
            why = "the radius is chosen by classes; pass delta= (features have unit length), or use default"
            context.check_task("prob-cover", DISTRIBUTIONS, why)
        rows = unit_length(context.features(*context.pools))
        assert isinstance(rows, Tensor)
        delta = self.delta
        if delta is None:  # by purity, with as many cells as the outputs have classes
            cells, _ = k_means(rows, min(context.classes, len(rows)), context.seed)
            delta = max(pure_radius(rows, cells, self.purity), torch.finfo(rows.dtype).tiny)
        return Embedded(*context.split(rows / delta))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features from one pass, at unit length, and with clusters of them where the radius is to be found."""
        made = feature_estimate(context)
        copies = 3 * made.rows
        if self.delta is None:
            size = made.passes
            copies += 16 * size * made.width + block_room(size, max(size, made.width)) // 2
        return replace(made, working=copies, may_spill=False)
