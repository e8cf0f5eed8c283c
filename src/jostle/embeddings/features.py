"""Features, and the embedding of a graph network over them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from jostle.core import Embedded, Embedding, Estimate, feature_estimate
from jostle.inference.context import QueryContext

LEAST_SUM = 1e-6  # columns can sum to nearly 0 where features take both signs
LEAST_LOG = -100.0  # a saturated node must not make the loss infinite


@dataclass(frozen=True, kw_only=True)
class Features(Embedding):
    """The input of the model's head, maps and tokens averaged; that of the labeled set gives centers."""

    shardable = True

    def embedding(self, context: QueryContext) -> Embedded:
        """Features of the pool, and those of the labeled set as centers."""
        return Embedded(*context.split(context.features(*context.pools)))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features of pool and labeled set from one pass."""
        return feature_estimate(context)


@dataclass(frozen=True)
class Graph:
    """The cosine graph of n nodes, held as n x d numbers."""

    rows: Tensor  # X: features at unit length, (n, d)
    sums: Tensor  # D: column sums of X X^T - I, kept away from 0, (n, 1)

    @classmethod
    def of(cls, features: Tensor) -> Graph:
        """The graph of these features."""
        rows = F.normalize(features)
        sums = (rows @ rows.sum(0) - 1).unsqueeze(1)
        floor = torch.where(sums < 0, -LEAST_SUM, LEAST_SUM).to(sums.dtype)
        return cls(rows, torch.where(sums.abs() < LEAST_SUM, floor, sums))

    def propagated(self, values: Tensor) -> Tensor:
        """A @ values, (n, k)."""
        shared = values / self.sums
        return self.rows @ (self.rows.T @ shared) - shared + values


@dataclass(frozen=True, kw_only=True)
class GraphNetwork(Embedding):
    """Hidden rows of a graph network that separates the pool from the labeled set, which gives centers."""

    ranges: ClassVar = {"width": "[1, inf)", "epochs": "[1, inf)", "dropout": "[0, 1)"}
    name: ClassVar[str] = "graph"
    width: int = 128
    """Width of the hidden layer."""
    dropout: float = 0.3
    """Share of the hidden layer that is dropped in training."""
    epochs: int = 200
    """Full-batch steps of Adam."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    decay: float = 5e-4
    """Weight decay of Adam."""
    unlabeled_weight: float = 1.2
    """Lambda, the weight of the pool's part of the loss."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Hidden layer and score of each node, those of the labeled set as centers."""
        return Embedded(*context.split(torch.cat(self.fitted(context), dim=1)))  # (n, width + 1)

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features of all nodes, what the graph makes of them, and the hidden layer with its gradients."""
        made = feature_estimate(context)
        nodes, d = made.passes, made.width
        return replace(
            made,
            width=self.width + 1,
            working=4
            * nodes
            * (3 * d + 6 * self.width),  # X, A X and once more; hidden layer, mask, gradients
            what=f"a graph of {nodes:,} nodes with {d} features",
            extra_work=f"{self.epochs} epochs of a graph network",
        )

    def fitted(self, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Hidden layer (n + m, width) and score before the sigmoid (n + m, 1), the pool's nodes first."""
        nodes = len(context.pool) + len(context.needs_labeled(self.name))
        graph = Graph.of(context.features(*context.pools))
        is_labeled = torch.arange(nodes, device=context.device) >= len(context.pool)
        return self.trained(graph, is_labeled, context)

    def trained(self, graph: Graph, is_labeled: Tensor, context: QueryContext) -> tuple[Tensor, Tensor]:
        """Train on the whole graph; 1 is labeled, 0 is not."""
        reached = graph.propagated(graph.rows)  # A X never changes, (n, d)
        weights = [w.requires_grad_() for w in self.drawn(reached, context.rng("graph weights"))]
        optimizer = torch.optim.Adam(weights, lr=self.lr, weight_decay=self.decay)
        draws = context.rng("graph dropout")
        with torch.enable_grad(), context.progress("graph network", self.epochs) as advance:
            for _ in range(self.epochs):
                optimizer.zero_grad()
                self.loss(self.forward(graph, reached, weights, draws)[1], is_labeled).backward()
                optimizer.step()
                advance(1)
        with torch.no_grad():
            return self.forward(graph, reached, weights, None)

    def drawn(self, like: Tensor, draws: torch.Generator) -> list[Tensor]:
        """Fresh weights and biases of both layers, uniform in 1 / sqrt(a layer's width)."""
        shapes = [(like.shape[1], self.width), (self.width,), (self.width, 1), (1,)]
        fresh = [torch.rand(s, generator=draws, device=like.device, dtype=like.dtype) for s in shapes]
        return [(2 * w - 1) / math.sqrt(w.shape[-1]) for w in fresh]

    def forward(
        self, graph: Graph, reached: Tensor, weights: list[Tensor], draws: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Hidden layer and score of each node; dropout only with a generator to draw it from."""
        first, bias, second, offset = weights
        hidden = F.relu(reached @ first + bias)  # (n, width)
        kept = hidden
        if draws is not None and self.dropout:
            luck = torch.rand(hidden.shape, generator=draws, device=hidden.device, dtype=hidden.dtype)
            kept = hidden * (luck >= self.dropout) / (1 - self.dropout)
        return hidden, graph.propagated(kept @ second) + offset

    def loss(self, scores: Tensor, is_labeled: Tensor) -> Tensor:
        """-mean ln s over the labeled nodes - lambda mean ln(1 - s) over the pool's."""
        yes = F.logsigmoid(scores[is_labeled]).clamp(min=LEAST_LOG)
        no = F.logsigmoid(-scores[~is_labeled]).clamp(min=LEAST_LOG)
        return -yes.mean() - self.unlabeled_weight * no.mean()
