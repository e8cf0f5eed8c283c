"""Cluster-Margin (Citovsky et al., NeurIPS 2021): small margins, spread over clusters."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate, Strategy, feature_estimate
from jostle.embeddings.uncertainty import DISTRIBUTIONS, small_margin
from jostle.inference.context import QueryContext
from jostle.selectors import Picks
from jostle.selectors.top_k import largest_first
from jostle.strategies.registry import register


@register(
    "cluster-margin",
    gist="small margins, spread over clusters of features",
    formula="the k_m smallest p_(1) - p_(2); round-robin over average-linkage clusters of h, smallest first",
    needs=("probabilities", "features"),
    tasks=DISTRIBUTIONS,
    cost="one forward pass, then hierarchical clustering: O(n^2 d) time and 8 n^2 bytes",
    paper="Citovsky et al., Batch Active Learning at Scale, NeurIPS 2021",
    when="large batches of a classifier whose smallest margins come from few regions",
)
@dataclass(frozen=True, kw_only=True)
class ClusterMargin(Strategy):
    """Of more examples than wanted, those with the smallest margins, a few are taken from each cluster of features.
    Clusters take turns, the smallest first, so that rare kinds are not crowded out.

    The paper clusters once for all rounds; a call knows no other, so it clusters the pool that it is given.
    """

    spare: float = 1.25
    """k_m / n, examples of small margin per pick; 10 for very large pools."""
    cluster_size: int = 10
    """Examples per cluster on average."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spare < 1 or self.cluster_size < 1:
            raise ValueError(
                f"spare and cluster_size are at least 1; got {self.spare} and {self.cluster_size}"
            )

    def embedding(self, context: QueryContext) -> Embedded:
        """One less the margins."""
        return Embedded(self.features_and_scores(context)[1])

    def features_and_scores(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Features (n, d) and one less the margins (n,), averaged over pixels or tokens, from one pass."""
        why = "it has no classes whose margin could be small; use default"
        context.check_task("cluster-margin", DISTRIBUTIONS, why)
        return context.features_and_scores(small_margin, what="features and margins")

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Features from one pass, and for picks all distances between them."""
        made = feature_estimate(context, extra=8, labeled=False)  # and a margin
        if n is None:
            return made
        size = len(context.pool)
        what = f"hierarchical clusters of {size:,} examples"
        return replace(made, selecting=8 * size**2 + 8 * size * made.width, what=what)

    def query(self, context: QueryContext, n: int) -> Picks:
        """The smallest margins, then one of each cluster in turn."""
        size = len(context.pool)
        with context.timed("embedding"):
            features, scores = self.features_and_scores(context)
        with context.selecting(n):
            kept = largest_first(scores, context.seed)[: math.ceil(self.spare * n)].cpu()
            cells = average_linkage(features, math.ceil(size / self.cluster_size))
            draws = context.rng("cluster-margin", device="cpu")
            chosen = torch.tensor(round_robin(cells[kept], n, draws))
            positions = kept[chosen].to(scores.device)
            return Picks(positions, scores[positions])


def average_linkage(rows: Tensor, clusters: int) -> Tensor:
    """The cluster of each row in an average-linkage hierarchy cut into this many, (n,)."""
    from scipy.cluster.hierarchy import fcluster, linkage  # here, since it is slow to load

    if len(rows) == 1:
        return torch.zeros(1, dtype=torch.int64)
    tree = linkage(rows.double().cpu().numpy(), "average")
    return torch.from_numpy(fcluster(tree, clusters, "maxclust")).long()


def round_robin(cells: Tensor, n: int, draws: torch.Generator) -> list[int]:
    """n positions: clusters in turn from the smallest to the largest, a random member each time."""
    shuffled = torch.randperm(len(cells), generator=draws, device=draws.device)
    members: dict[int, list[int]] = {}
    for position in shuffled.tolist():
        members.setdefault(int(cells[position]), []).append(position)
    queues = sorted(members.values(), key=lambda queue: (len(queue), min(queue)))
    picks: list[int] = []
    while len(picks) < n:
        picks += [queue.pop() for queue in queues if queue]
    return picks[:n]
