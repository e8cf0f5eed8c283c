"""How unsure a model is of single examples: scores of its distributions (..., c), larger where less is known."""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(p: Tensor) -> Tensor:
    """Entropy in nats, from 0 to ln c; a probability of 0 counts 0."""
    total: Tensor = torch.special.entr(p).sum(-1)
    return total


def small_margin(p: Tensor) -> Tensor:
    """One less the gap between the two largest probabilities: 0 when sure, 1 when two classes tie."""
    first, second = p.topk(2, dim=-1).values.unbind(-1)
    return 1 - (first - second)


def lack_of_confidence(p: Tensor) -> Tensor:
    """One less the largest probability."""
    return 1 - p.amax(-1)


def expected_gradient_length(p: Tensor, features: Tensor) -> Tensor:
    """Length of the loss's gradient in the last layer's weights, averaged over the labels y ~ p: (n,).

    The gradient is (p - e_y) h^T, so its length is |h| |p - e_y|; the bias is left out, whatever the layer has.
    """
    p = p.double()  # in single precision the rest of a sure p is lost beside its largest entry
    others = p.square().sum(1, keepdim=True) - p.square()  # (n, c): squared length of p less its entry y
    lengths = (others.clamp(min=0) + (1 - p).square()).sqrt()  # (n, c): |p - e_y|
    sizes: Tensor = torch.linalg.vector_norm(features.double(), dim=1)
    return sizes * (p * lengths).sum(1)
