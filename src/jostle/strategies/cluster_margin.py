"""Cluster-Margin (Citovsky et al., NeurIPS 2021): small margins, spread over clusters."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Costs, Embedded, Strategy
from jostle.core.costs import SCORE, features
from jostle.core.plan import seconds_of, trial
from jostle.embeddings.uncertainty import DISTRIBUTIONS, small_margin
from jostle.scoring.request import Request
from jostle.scoring.selecting import selecting
from jostle.selectors import Picks
from jostle.selectors.top_k import largest_first
from jostle.strategies.catalogue import register

FEW = 2000  # rows whose clusters are tried for a plan


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

    def embedding(self, request: Request) -> Embedded:
        """One less the margins."""
        return Embedded(self.features_and_scores(request)[1])

    def features_and_scores(self, request: Request) -> tuple[Tensor, Tensor]:
        """Features (n, d) and one less the margins (n,), averaged over pixels or tokens, from one pass."""
        why = "it has no classes whose margin could be small; use coreset or lcmd"
        request.check_task("cluster-margin", DISTRIBUTIONS, why)
        return request.features_and_scores(small_margin, what="features and margins")

    def costs(self, request: Request, n: int | None) -> Costs:
        """Features from one pass, and for picks all distances between them."""
        made = features(request, SCORE, labeled=False)
        if n is None:
            return made
        size = len(request.pool)
        what = f"hierarchical clusters of {size:,} examples"
        return replace(made, selecting=8 * size**2 + SCORE * size * made.width, what=what)

    def selecting_seconds(self, request: Request, costs: Costs, n: int) -> float:
        """Nearly all of it are the clusters, whatever n is."""
        return linkage_seconds(len(request.pool), costs.width)

    def query(self, request: Request, n: int) -> Picks:
        """The smallest margins, then one of each cluster in turn."""
        size = len(request.pool)
        with request.timed("embedding"):
            features, scores = self.features_and_scores(request)
        with selecting(request, n, lambda: linkage_seconds(size, features.shape[1])):
            kept = largest_first(scores, request.seed)[: math.ceil(self.spare * n)].cpu()
            cells = average_linkage(features, math.ceil(size / self.cluster_size))
            draws = request.rng("cluster-margin", device="cpu")
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


def linkage_seconds(size: int, width: int) -> float:
    """What clusters of so many rows take, from those of a few: all distances."""
    rows = trial(width, size, FEW)
    return seconds_of(lambda: average_linkage(rows, 2)) * (size / len(rows)) ** 2


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
