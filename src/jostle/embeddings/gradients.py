"""Gradients as rows: of the last layer kept as two factors, of all parameters sketched by random directions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jostle.core import Choice, Embedded, Embedding, Estimate, feature_estimate
from jostle.embeddings.deviations import Deviations, Space
from jostle.inference.context import QueryContext
from jostle.inputs import Inputs
from jostle.rows.geometry import Outer
from jostle.selectors import top_k
from jostle.tasks import CLASS_TASKS


@dataclass(frozen=True, kw_only=True)
class LastLayerGradients(Embedding):
    """The gradient that the predicted class would cause in the last layer, kept as two factors."""

    serves = CLASS_TASKS
    why_not = "its rows are gradients at one predicted class; use default"
    shardable = True

    def embedding(self, context: QueryContext) -> Embedded:
        """Gradients of the pool as two factors."""
        hidden, outputs = context.features_and_outputs()
        return Embedded(last_layer_gradients(hidden, context.reader.probabilities(outputs)))

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Features and outputs from one pass, and the outputs' factor, which lies in memory."""
        c = context.runner.example_outputs[0].numel()
        made = feature_estimate(context, c * context.row_type.itemsize, labeled=False)
        factors = 3 * made.passes * max(2, c) * context.row_type.itemsize  # probabilities, and changed ones
        return replace(made, width=made.width + c, working=factors, resident=factors)


@dataclass(frozen=True, kw_only=True)
class SketchedGradients(Embedding):
    """The gradient of the output with respect to all parameters, sketched; that of the labeled set gives centers.

    The deviation of the output under a random perturbation is the gradient's product with a random direction, so
    `sketch` perturbations are a random projection that keeps inner products. A regression's outputs are
    sketched side by side, of a classifier the logit of the predicted class, or the only one.
    """

    serves = ("regression", *CLASS_TASKS)
    why_not = "it follows the gradient of one output; use default"
    shardable = True

    sketch: int = 512
    """How many random directions; fewer are faster and rougher."""
    estimator: str = "finite"
    """How gradients are found: "finite" differences, on any model; "jvp": the exact derivative, four times slower."""

    def embedding(self, context: QueryContext) -> Embedded:
        """Sketched gradients of the pool, (n, sketch), and those of the labeled set as centers."""
        space = predicted_logit if context.task.has_classes else "logits"
        return Embedded(*context.split(self.sketched(space).rows(context, *context.pools)))

    def sketched(self, space: Space) -> Deviations:
        """The deviations that sketch a gradient."""
        return Deviations(
            num_perturbations=self.sketch, estimator=self.estimator, space=space, initial_centers="labeled"
        )

    def row_estimate(self, context: QueryContext) -> Estimate:
        """Estimate deviations under as many perturbations as the sketch is wide."""
        space = predicted_logit if context.task.has_classes else "logits"
        fewer = f"sketch={max(1, self.sketch // 4)}: rougher rows for a quarter of the passes"
        return replace(self.sketched(space).row_estimate(context), suggestions=(fewer,))


@dataclass(frozen=True, kw_only=True)
class ExpectedGradientLength(Embedding):
    """Take the examples that would change the last layer most, averaged over the labels they may have.
    It weighs how unsure the model is with the length of the features.
    """

    serves = CLASS_TASKS
    why_not = "it averages over the labels of an example, of which there must be one; use default"
    shardable = True

    selector: Choice = top_k

    def embedding(self, context: QueryContext) -> Embedded:
        """Expected lengths."""

        def read(inputs: Inputs) -> tuple[Tensor]:
            features, outputs = context.runner.features_and_outputs(inputs)
            p = context.reader.probabilities(outputs.double())  # (n, c)
            return (expected_gradient_length(p, context.reader.vectors(features, inputs)),)

        return Embedded(context.compute(read, what="gradient lengths")[0])


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
