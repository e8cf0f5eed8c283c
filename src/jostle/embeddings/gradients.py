"""Gradients as rows: of the last layer kept as two factors, of all parameters sketched by random directions."""

from __future__ import annotations

import torch
from torch import Tensor

from jostle.embeddings.deviations import Deviations
from jostle.rows import Outer
from jostle.scoring.request import Request


def last_layer_gradients(features: Tensor, probabilities: Tensor) -> Outer:
    """Gradients of the loss at the predicted class with respect to the last layer's weights, as factors."""
    left = probabilities.clone()  # (n, c)
    predicted = left.argmax(1, keepdim=True)
    left.scatter_(1, predicted, 0)
    left.scatter_(1, predicted, -left.sum(1, keepdim=True))  # p - 1 without its rounding where p is near 1
    return Outer(left, features)


def fisher_roots(probabilities: Tensor) -> Tensor:
    """S with rows sqrt(p_y) (e_y - p), so that S^T S = diag(p) - p p^T is the logits' Fisher matrix: (n, c, c)."""
    each = torch.eye(probabilities.shape[1], dtype=probabilities.dtype, device=probabilities.device)
    away = each - probabilities[:, None]  # (n, c, c)
    return probabilities.sqrt()[:, :, None] * away


def sketched_gradients(request: Request, sketch: int, estimator: str) -> tuple[Tensor, Tensor | None]:
    """Gradients of the output with respect to all parameters, of pool and labelled set, sketched to (n, sketch).

    A movement of the output under a random jolt is the gradient's product with a random direction, so `sketch`
    jolts are a random projection that keeps inner products. A regression's outputs are sketched side by side,
    of a classifier the logit of the predicted class.
    """
    space = "logits" if request.task.name == "regression" else highest
    settings = Deviations(jolts=sketch, estimator=estimator, space=space)
    return settings.rows_of_both(request)


def highest(logits: Tensor) -> Tensor:
    """The logit of the predicted class, (n, 1)."""
    return logits.flatten(1).amax(1, keepdim=True)
