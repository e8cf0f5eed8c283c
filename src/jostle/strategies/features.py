"""Strategies that cover the space of features: CoreSet, TypiClust, ProbCover, CLUE and Cluster-Margin."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, Strategy, feature_estimate
from jostle.embeddings.features import Features
from jostle.embeddings.uncertainty import DISTRIBUTIONS, NO_CLASSES, entropy, small_margin
from jostle.inference.context import QueryContext
from jostle.rows.geometry import unit_length
from jostle.selectors import Picks, weighted_k_means
from jostle.selectors.base import block_room
from jostle.selectors.clusters import k_means, typical
from jostle.selectors.prob_cover import prob_cover, pure_radius
from jostle.selectors.top_k import largest_first
from jostle.strategies.registry import register


@register(
    "coreset",
    gist="k-center on features: far from what is labeled",
    formula="argmax_i min_{j labeled or picked} ||h_i - h_j||, repeated",
    needs=("features", "labeled set"),
    cost="one forward pass over pool and labeled set, then O(n d) per pick at worst",
    paper="Sener and Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018",
    when="large batches on any task with good features; it ignores what the model is unsure of",
)
@dataclass(frozen=True, kw_only=True)
class CoreSet(Features):
    """Every example should lie near a labeled one in the space of features.
    Greedy k-center takes the example farthest from all that is labeled or picked, again and again.
    """

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of the pool, and those of the labeled set, which is what there is to cover from."""
        context.needs_labeled("coreset")
        return super().embedding(context)


@register(
    "typiclust",
    gist="typical examples of clusters, for the first labels",
    formula="k-means with min(m + n, 500) clusters; in each argmax 1 / mean_{20 neighbors} ||h_i - h_j||^2",
    needs=("features",),
    cost="one forward pass, k-means, then distances within clusters",
    paper="Hacohen et al., Active Learning on a Budget: Opposite Strategies Suit High and Low Budgets, ICML 2022",
    when="the very first labels, with self-supervised features given by head= as a function (model, x) -> (n, d)",
)
@dataclass(frozen=True, kw_only=True)
class TypiClust(Features):
    """With few labels, typical examples teach more than odd ones.
    k-means finds clusters, and each cluster without labels gives the example whose neighbors are nearest.

    The paper uses self-supervised features: pass `head=` a function of model and inputs that returns them.
    Otherwise the model's own features serve. A labeled set is taken into account where there is one.
    """

    selector: Choice = typical


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

    ranges: ClassVar = {"delta": "(0, inf)", "purity": "(0, 1]"}
    selector: Choice = prob_cover
    delta: float | None = None
    """Radius of a ball; None: by purity."""
    purity: float = 0.95
    """Without delta: share of balls that hold rows of one k-means cell only."""

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


@register(
    "clue",
    gist="one of each cluster, where what is unsure counts more",
    formula="argmin sum_i H(p_i) |h_i - mu_k(i)|^2 by k-means with n clusters; the example nearest to each mu",
    needs=("probabilities", "features"),
    cost="one forward pass, then weighted k-means with n clusters",
    paper="Prabhu et al., Active Domain Adaptation via Clustering Uncertainty-weighted Embeddings, ICCV 2021",
    when="large batches, and a model that meets new data, as in domain adaptation",
)
@dataclass(frozen=True, kw_only=True)
class Clue(Embedding):
    """k-means over features in which an example counts by its entropy, with a cluster for each pick.
    Centers move to where much is uncertain, and each takes the example nearest to it.
    """

    ranges: ClassVar = {"temperature": "(0, inf)"}
    serves = DISTRIBUTIONS
    why_not = NO_CLASSES
    selector: Choice = weighted_k_means
    temperature: float = 1.0
    """Logits are divided by it before the entropy; the authors take 1 for digits and 0.1 for DomainNet."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Features, and entropies as weights."""

        def tempered(p: Tensor) -> Tensor:
            q = p.pow(1 / self.temperature)
            return entropy(q / q.sum(-1, keepdim=True))

        features, weights = context.features_and_scores(tempered, context.pool, what="features and entropies")
        return Embedded(features, weights=weights.to(features.dtype))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features and entropies of the pool from one pass."""
        return feature_estimate(context, 8, labeled=False)


@register(
    "cluster-margin",
    gist="small margins, spread over clusters of features",
    formula="the k_m smallest p_(1) - p_(2); round-robin over average-linkage clusters of h, smallest first",
    needs=("probabilities", "features"),
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

    ranges: ClassVar = {"spare": "[1, inf)", "cluster_size": "[1, inf)"}
    serves = DISTRIBUTIONS
    why_not = "it has no classes whose margin could be small; use default"
    spare: float = 1.25
    """k_m / n, examples of small margin per pick; 10 for very large pools."""
    cluster_size: int = 10
    """Examples per cluster on average."""

    def embedding(self, context: QueryContext) -> Embedded:
        """One less the margins."""
        return Embedded(self.features_and_scores(context)[1])

    def features_and_scores(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Features (n, d) and one less the margins (n,), averaged over pixels or tokens, from one pass."""
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
