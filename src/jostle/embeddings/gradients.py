"""Gradients as rows: of the last layer kept as two factors, of all parameters sketched by random directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from jostle.core import Choice, Costs, Embedded, Embedding
from jostle.core.costs import features
from jostle.core.plan import trial
from jostle.embeddings.deviations import Deviations
from jostle.embeddings.watching import Space
from jostle.inputs import Inputs
from jostle.rows import Outer
from jostle.scoring.request import Request
from jostle.selectors import top_k
from jostle.tasks import CLASS_TASKS

ONE_CLASS = (
    "its rows are gradients at one predicted class; use lcmd for a regression, or coreset with "
    "selector='k-means++', or noise-stability"
)
MANY_LABELS = (
    "it averages over the labels of an example, of which there must be one; use entropy, or noise-stability"
)
ONE_OUTPUT = "it follows the gradient of one output; use coreset or noise-stability"


@dataclass(frozen=True, kw_only=True)
class LastLayerGradients(Embedding):
    """The gradient that the predicted class would cause in the last layer, kept as two factors."""

    alone = True

    method: ClassVar[str] = "last-layer-gradients"

    def embedding(self, request: Request) -> Embedded:
        """Gradients of the pool as two factors."""
        request.check_task(self.method, CLASS_TASKS, ONE_CLASS)
        hidden, outputs = request.features_and_outputs()
        return Embedded(last_layer_gradients(hidden, request.probabilities_of(outputs)))

    def making(self, request: Request) -> Costs:
        """Features and outputs from one pass, and the outputs' factor, which lies in memory."""
        c = math.prod(request.output_shape[1:])
        made = features(request, c * request.row_type.itemsize, labeled=False)
        factors = 3 * made.passes * max(2, c) * request.row_type.itemsize  # probabilities, and changed ones
        return replace(made, width=made.width + c, working=factors, fixed=factors)

    def made_up(self, request: Request, width: int, size: int) -> Outer:
        """Two random factors."""
        c = math.prod(request.output_shape[1:])
        few = trial(width, size)
        return Outer(few[:, :c], few[:, c:])


@dataclass(frozen=True, kw_only=True)
class SketchedGradients(Embedding):
    """The gradient of the output with respect to all parameters, sketched; that of the labelled set gives centers.

    A movement of the output under a random jolt is the gradient's product with a random direction, so `sketch`
    jolts are a random projection that keeps inner products. A regression's outputs are sketched side by side,
    of a classifier the logit of the predicted class, or the only one.
    """

    alone = True

    method: ClassVar[str] = "sketched-gradients"
    serves: ClassVar[tuple[str, ...]] = ("regression", *CLASS_TASKS)
    sketch: int = 512
    """How many random directions; fewer are faster and rougher."""
    estimator: str = "finite"
    """How gradients are found: "finite" differences, on any model; "jvp": the exact derivative, four times slower."""

    def embedding(self, request: Request) -> Embedded:
        """Sketched gradients of the pool, (n, sketch), and those of the labelled set as centers."""
        request.check_task(self.method, self.serves, ONE_OUTPUT)
        space = "logits" if request.task.name == "regression" else predicted_logit
        return Embedded(*self.sketched(space).rows_of_both(request))

    def sketched(self, space: Space) -> Deviations:
        """The jolts that sketch a gradient."""
        return Deviations(jolts=self.sketch, estimator=self.estimator, space=space, start="labeled")

    def making(self, request: Request) -> Costs:
        """Movements of pool and labelled set under as many jolts as the sketch is wide."""
        space = "logits" if request.task.name == "regression" else predicted_logit
        fewer = f"sketch={max(1, self.sketch // 4)}: rougher rows for a quarter of the passes"
        return replace(self.sketched(space).making(request), cheaper=(fewer,))


@dataclass(frozen=True, kw_only=True)
class ExpectedGradientLength(Embedding):
    """Take the examples that would change the last layer most, averaged over the labels they may have.
    It weighs how unsure the model is with the length of the features.
    """

    alone = True

    selector: Choice = top_k

    def embedding(self, request: Request) -> Embedded:
        """Expected lengths."""
        request.check_task("egl", CLASS_TASKS, MANY_LABELS)

        def read(inputs: Inputs) -> tuple[Tensor]:
            features, outputs = request.network.features_and_outputs(inputs)
            p = request.probabilities_of(outputs.double())  # (n, c)
            return (expected_gradient_length(p, request.vectors(features, inputs)),)

        return Embedded(request.compute(read, what="gradient lengths")[0])


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


def predicted_logit(logits: Tensor) -> Tensor:
    """The logit of the predicted class, (n, 1)."""
    return logits.reshape(len(logits), -1).amax(1, keepdim=True)


def expected_gradient_length(p: Tensor, features: Tensor) -> Tensor:
    """Length of the loss's gradient in the last layer's weights, averaged over the labels y ~ p: (n,).

    The gradient is (p - e_y) h^T, so its length is |h| |p - e_y|; the bias is left out, whatever the layer has.
    """
    p = p.double()  # in single precision the rest of a sure p is lost beside its largest entry
    others = p.square().sum(1, keepdim=True) - p.square()  # (n, c): squared length of p less its entry y
    lengths = (others.clamp(min=0) + (1 - p).square()).sqrt()  # (n, c): |p - e_y|
    sizes: Tensor = torch.linalg.vector_norm(features.double(), dim=1)
    return sizes * (p * lengths).sum(1)
