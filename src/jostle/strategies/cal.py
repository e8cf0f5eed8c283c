"""CAL (Margatina et al., EMNLP 2021): predictions that differ from those of similar labeled examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.inference.context import QueryContext
from jostle.rows.geometry import blocks
from jostle.selectors import top_k
from jostle.selectors.base import block_room
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS


@register(
    "cal",
    gist="unlike the predictions of similar labeled examples",
    formula="mean_{l in k nearest labeled by |h - h_l|} KL(p_l || p), largest first",
    needs=("probabilities", "features", "labeled set"),
    cost="one forward pass over pool and labeled set, then O(n m d) for m labels",
    paper="Margatina et al., Active Learning by Acquiring Contrastive Examples, EMNLP 2021",
    when="fine-tuned text encoders: contrastive examples lie near labeled ones and are predicted differently",
)
@dataclass(frozen=True, kw_only=True)
class Cal(Embedding):
    """Take the examples whose prediction differs most from those of the labeled examples with similar features.
    The model's predictions of its labeled neighbors stand for what it learned there.
    """

    ranges: ClassVar = {"neighbors": "[1, inf)"}
    serves = CLASS_TASKS
    why_not = "it compares one distribution over classes for each example; use default"
    selector: Choice = top_k
    neighbors: int = 10
    """k, labeled examples that each example is compared with; all where there are fewer."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Mean divergences from the nearest labeled examples."""
        context.needs_labeled("cal")
        features, outputs = context.features_and_outputs(*context.pools)
        p, size = context.reader.probabilities(outputs.double()), len(context.pool)
        return Embedded(
            divergence_from_neighbors(features[:size], p[:size], features[size:], p[size:], self.neighbors)
        )

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features and outputs of pool and labeled set from one pass."""
        made = feature_estimate(context, 16 * context.classes)
        return replace(made, working=block_room(made.passes, made.width))


def divergence_from_neighbors(rows: Tensor, p: Tensor, known: Tensor, known_p: Tensor, k: int) -> Tensor:
    """Return the mean KL(p_l || p) over the k nearest known rows of each row, (n,)."""
    tiny = torch.finfo(torch.float64).tiny
    known, k = known.double(), min(k, len(known))
    certain = torch.special.entr(known_p).sum(1)  # (m,): minus the part that p does not change
    found = p.new_empty(len(rows))
    for part in blocks(len(rows), per_row=max(known.shape)):
        apart = torch.cdist(rows[part].double(), known, compute_mode="donot_use_mm_for_euclid_dist")
        near = apart.topk(k, largest=False).indices  # (b, k)
        crossed = -(known_p[near] * p[part, None].clamp(min=tiny).log()).sum(2)  # (b, k)
        found[part] = (crossed - certain[near]).mean(1)
    return found
