"""BAIT (Ash et al., NeurIPS 2021): the batch that best explains the Fisher information of everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Embedded, Estimate, Strategy
from jostle.embeddings.gradients import fisher_roots
from jostle.inference.context import QueryContext
from jostle.selectors import Picks, break_ties, first_copies, tie_keys
from jostle.selectors.base import pick_one_by_one
from jostle.strategies.registry import register
from jostle.tasks import CLASS_TASKS
from jostle.utils.progress import Advance


@register(
    "bait",
    gist="what fixes the last layer, by Fisher information",
    formula="min_B tr(M_B^-1 F), F = mean V^T V, V = sqrt(p_y) (e_y - p) x h (regression: h); 2n forward, n back",
    needs=("features", "labeled set"),
    cost="one forward pass, then O(n c^2 d + (c d)^2 c) for each of 3n steps; 56 (c d)^2 bytes",
    paper="Ash et al., Gone Fishing: Neural Active Learning with Fisher Embeddings, NeurIPS 2021",
    when="few classes and narrow features, or regression, when time per pick does not matter",
)
@dataclass(frozen=True, kw_only=True)
class Bait(Strategy):
    """Labels fix the last layer along the directions of their Fisher information, and all examples say which matter.
    Greedy steps take twice as many examples as wanted, then drop those that are missed least.

    Matrices for every example are updated along with the inverse, never computed anew (Woodbury's identity).
    """

    ranges: ClassVar = {"regularization": "(0, inf)"}
    serves = (*CLASS_TASKS, "regression")
    why_not = "it follows one output per example; use default"
    regularization: float = 1.0
    """Lambda, the weight of the identity beside the information; the authors take 0.01 on CIFAR-10."""
    binary: bool = False
    """Whether the label only says if the predicted class is right, so that matrices are (d, d) for any classes."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Compute how much each example would lower the trace, as the only pick."""
        return Embedded(self.fisher(context, 1).ratios(1).unsqueeze(1))

    def query(self, context: QueryContext, n: int) -> Picks:
        """Add 2n examples one by one, then drop n."""
        with context.timed("embedding"):
            fisher = self.fisher(context, n)
        more = min(2 * n, len(context.pool))
        with context.selecting(more + more - n) as advance:
            keys = tie_keys(context.seed, torch.arange(len(context.pool), device=context.device))
            added = pick_one_by_one(more, lambda: fisher.ratios(1), lambda best: fisher.step(best, 1), keys)
            kept = pruned(fisher.only(added.positions.tolist()), n, keys[added.positions], advance)
            return Picks(added.positions[kept], added.scores[kept])

    def check_task(self, context: QueryContext) -> None:
        """Raise an error for a task that BAIT does not serve, in the name of its form."""
        context.check_task("bait-binary" if self.binary else "bait", self.serves, self.why_not)

    def fisher(self, context: QueryContext, n: int) -> Fisher:
        """Fisher matrices of the pool's examples, of everything, and of what is labeled."""
        m, size = len(context.needs_labeled(self.name)), len(context.pool)
        features, outputs = (rows.double() for rows in context.features_and_outputs(*context.pools))
        if not context.task.has_classes:
            roots = torch.ones_like(features[:, :1, None])  # V = h^T, (n + m, 1, 1)
        elif self.binary:
            top = context.reader.probabilities(outputs).amax(1)
            roots = (top * (1 - top)).sqrt()[:, None, None]  # V = sqrt(p (1 - p)) h^T, (n + m, 1, 1)
        else:
            roots = fisher_roots(context.reader.probabilities(outputs))  # (n + m, c, c)
        labeled = information(roots[size:], features[size:])
        identity = torch.eye(len(labeled), dtype=labeled.dtype, device=labeled.device)
        seen = self.regularization * identity + labeled * (m / (m + n))
        target = information(roots, features)
        scaled = roots[:size] * (n / (m + n)) ** 0.5
        return Fisher.of(scaled, features[:size], target, torch.linalg.inv(seen))

    def sizes(self, context: QueryContext) -> tuple[int, int]:
        """Classes, one of a regression or in the binary form, and the width of features."""
        one = self.binary or not context.task.has_classes
        return 1 if one else context.classes, context.feature_width

    def estimate(self, context: QueryContext, n: int | None) -> Estimate:
        """Fisher matrices of everything and of each example, all in memory."""
        (c, d), examples = self.sizes(context), sum(map(len, context.pools))
        return Estimate(
            passes=examples,
            rows=8 * examples * (5 * c * c + 3 * d),
            width=1,
            working=56 * (c * d) ** 2,  # seven such matrices while the first inverse is made, four afterwards
            selecting=32 * (c * d) ** 2 + 8 * examples * 6 * c * c,
            what=f"Fisher matrices of {c} classes x {d} features and of {examples:,} examples",
        )


register(
    "bait-binary",
    gist="BAIT by whether the predicted class is right",
    idea="BAIT for a label that only says whether the predicted class is right. Matrices are then as wide as the "
    "features, however many classes there are.",
    formula="min_B tr(M_B^-1 F), F = mean V^T V, V = sqrt(p_(1) (1 - p_(1))) h (regression: h); 2n forward, n back",
    needs=("features", "labeled set"),
    cost="one forward pass, then O(n d + d^2) for each of 3n steps; 56 d^2 bytes",
    paper="Huseljic et al., Fast Fishing: Approximating BAIT for Efficient and Scalable Deep Active Image "
    "Classification, ECML PKDD 2024",
    when="BAIT with many classes or wide features",
)(partial(Bait, binary=True))


def pruned(fisher: Fisher, n: int, keys: Tensor, advance: Advance) -> list[int]:
    """The n rows, in their order, that are left when the one whose loss raises the trace least goes each time; each
    advances a bar.
    """
    kept = list(range(len(fisher.features)))
    gone: list[int] = []
    while len(kept) > n:
        losses = fisher.ratios(-1)
        losses[gone] = torch.inf
        gone.append(break_ties(-losses, -keys))
        kept.remove(gone[-1])
        fisher.step(gone[-1], -1)
        advance(1)
    return kept


@dataclass
class Fisher:
    """tr(M^-1 F) under additions to M and removals from it.

    Example x has the root V_x = S_x x h_x, (r, c d). Kept current for each: V M^-1 V^T and V M^-1 F M^-1 V^T.
    """

    roots: Tensor  # S (n, r, c)
    features: Tensor  # h (n, d)
    target: Tensor  # F (c d, c d)
    inverse: Tensor  # M^-1 (c d, c d)
    inner: Tensor  # V M^-1 V^T (n, r, r)
    outer: Tensor  # V M^-1 F M^-1 V^T (n, r, r)
    copies: Tensor | None = None  # (n,), the first copy of each example, whose values all copies have

    @classmethod
    def of(cls, roots: Tensor, features: Tensor, target: Tensor, inverse: Tensor) -> Fisher:
        """The state at this inverse."""
        outer = quadratic(roots, features, inverse @ target @ inverse)
        copies = first_copies(torch.cat([features, roots.flatten(1)], 1))
        return cls(roots, features, target, inverse, quadratic(roots, features, inverse), outer, copies)

    def only(self, chosen: list[int]) -> Fisher:
        """Return the state restricted to a few of the examples."""
        parts = (self.roots[chosen], self.features[chosen], self.target, self.inverse)
        copies = first_copies(torch.cat([self.features[chosen], self.roots[chosen].flatten(1)], 1))
        return Fisher(*parts, self.inner[chosen], self.outer[chosen], copies)

    def ratios(self, sign: int) -> Tensor:
        """Return how much adding each example would lower the trace (sign 1), or removing it raise it (-1), (n,)."""
        identity = torch.eye(self.inner.shape[1], dtype=self.inner.dtype, device=self.inner.device)
        solved: Tensor = torch.linalg.solve(identity + sign * self.inner, self.outer)
        ratios = solved.diagonal(dim1=1, dim2=2).sum(1)
        return ratios if self.copies is None else ratios[self.copies]

    def step(self, position: int, sign: int) -> None:
        """Add an example's information to M (sign 1), or take it away (sign -1)."""
        root = (self.roots[position][:, :, None] * self.features[position]).flatten(1)  # V (r, c d)
        reached = root @ self.inverse  # (r, c d)
        identity = torch.eye(len(root), dtype=root.dtype, device=root.device)
        factor = torch.linalg.cholesky(identity + sign * reached @ root.T)
        moved = torch.linalg.solve_triangular(factor, reached, upper=False).T  # M^-1 changes by this squared
        toward = self.target @ moved  # (c d, r)
        a, w = self.seen(moved), self.seen(self.inverse @ toward)  # (n, r, r) both
        crossed = a @ w.mT
        self.outer += a @ (moved.T @ toward) @ a.mT - sign * (crossed + crossed.mT)
        self.inner -= sign * a @ a.mT
        self.inverse -= sign * moved @ moved.T

    def seen(self, directions: Tensor) -> Tensor:
        """V times these columns (c d, k) for every example, (n, r, k)."""
        c, d, k = self.roots.shape[2], self.features.shape[1], directions.shape[1]
        by_feature = directions.view(c, d, k).transpose(0, 1).reshape(d, c * k)
        return self.roots @ (self.features @ by_feature).view(-1, c, k)


def information(roots: Tensor, features: Tensor) -> Tensor:
    """The mean of V^T V over the examples, (c d, c d), block by block from S^T S and h."""
    c, (n, d) = roots.shape[2], features.shape
    weights = roots.mT @ roots / n  # (n, c, c)
    blocks = features.new_empty(c, d, c, d)
    for a, b in combinations_with_replacement(range(c), 2):
        block = features.T @ (features * weights[:, a, b, None])  # symmetric, (d, d)
        blocks[a, :, b] = blocks[b, :, a] = block
    return blocks.view(c * d, c * d)


def quadratic(roots: Tensor, features: Tensor, matrix: Tensor) -> Tensor:
    """V matrix V^T of every example, (n, r, r), for a symmetric matrix (c d, c d)."""
    c, (n, d) = roots.shape[2], features.shape
    blocks = matrix.view(c, d, c, d)
    middle = features.new_empty(n, c, c)
    for a, b in combinations_with_replacement(range(c), 2):
        middle[:, a, b] = middle[:, b, a] = ((features @ blocks[a, :, b]) * features).sum(1)
    return roots @ middle @ roots.mT
