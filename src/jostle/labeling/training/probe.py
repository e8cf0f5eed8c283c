"""Probes on frozen embeddings, trained in seconds: softmax for one class, sigmoids for several, ridge for a number.

How much the weights are held back is chosen by five-fold cross-validation, whose predictions also scale the
temperature, so that confidences mean what they say, and are what each training example gets without having been seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from torch import Tensor, nn

from jostle.rng import derive

Rows = NDArray[np.float64]

PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5)  # on squared weights, of rows with length 1; the first is the strongest
BIAS_PENALTY = 1e-4  # a class that nobody chose stays finite
FOLDS = 5
MAX_STEPS = 200  # of L-BFGS at most
RIDGES = tuple(10.0**power for power in range(-4, 5))  # relative to the mean squared singular value


class Probe(nn.Module):
    """Linear layer on embeddings that are shifted to mean 0 and scaled to mean length 1: (n, d) -> (n, c)."""

    def __init__(self, shift: Tensor, scale: float, classes: int) -> None:
        super().__init__()
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", shift)
        self.register_buffer("scale", torch.tensor(scale))
        self.head = nn.Linear(len(shift), classes)

    @classmethod
    def on(cls, pool: NDArray[np.float32], classes: int) -> Probe:
        """Return an untrained probe with the shift and scale of the whole pool."""
        shift = pool.mean(0, dtype=np.float64)
        scale = float(np.sqrt(((pool - shift) ** 2).sum(1).mean())) or 1.0
        probe = cls(torch.from_numpy(shift).float(), scale, classes)
        nn.init.zeros_(probe.head.weight)
        nn.init.zeros_(probe.head.bias)
        return probe

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits, or the number."""
        return self.head((rows - self.shift) / self.scale)  # type: ignore[no-any-return]

    def features(self, rows: NDArray[np.float32]) -> Rows:
        """Return the inputs of the head, in double precision."""
        shifted: Rows = rows.astype(np.float64) - self.shift.double().numpy()
        return shifted / float(self.scale)

    def set(self, weight: Rows, bias: Rows) -> None:
        """Set weights (c, d) and biases (c,)."""
        with torch.no_grad():
            self.head.weight.copy_(torch.from_numpy(weight))
            self.head.bias.copy_(torch.from_numpy(bias))


@dataclass(frozen=True)
class TrainedProbe:
    """Probe, and its out-of-sample predictions of the training examples: probabilities (m, c) or numbers (m, 1)."""

    probe: Probe
    held_out: Rows


class Loss(NamedTuple):
    """Loss of a linear classifier."""

    value: Callable[
        [Rows, Rows], float
    ]  # mean over examples, of logits (m, c) for targets (m, c) of zeros and ones
    probabilities: Callable[
        [Rows], Rows
    ]  # (m, c); the gradient of the loss is these less the targets, over m


SOFTMAX = Loss(  # exactly one class is right
    lambda logits, targets: -float((log_softmax(logits, axis=1) * targets).sum(1).mean()),
    lambda logits: softmax(logits, axis=1),
)
SIGMOIDS = Loss(  # each class is right or not by itself
    lambda logits, targets: float((np.logaddexp(0, logits) - targets * logits).sum(1).mean()), expit
)


def fit_classifier(
    loss: Loss, pool: NDArray[np.float32], places: NDArray[np.int64], targets: Rows, seed: int
) -> TrainedProbe:
    """Fit a probe for classes: targets (m, c) of zeros and ones, for the pool's examples at `places`."""
    probe = Probe.on(pool, targets.shape[1])
    rows, basis = reduce_rows(probe.features(pool[places]))
    folds = _draw_folds(len(rows), seed)
    held = np.zeros((len(PENALTIES), *targets.shape))
    for fold in range(int(folds.max()) + 1):
        inside, outside = folds != fold, folds == fold
        for place, (weight, bias) in enumerate(_fit_path(loss, rows[inside], targets[inside])):
            held[place, outside] = rows[outside] @ weight.T + bias
    best = int(
        np.argmin([loss.value(logits / _fit_temperature(loss, logits, targets), targets) for logits in held])
    )
    warmth = _fit_temperature(loss, held[best], targets)
    weight, bias = _fit_path(loss, rows, targets, PENALTIES[: best + 1])[-1]
    probe.set(weight @ basis / warmth, bias / warmth)
    return TrainedProbe(probe, loss.probabilities(held[best] / warmth))


def fit_regressor(pool: NDArray[np.float32], places: NDArray[np.int64], targets: Rows) -> TrainedProbe:
    """Fit a probe for a number by ridge regression; the penalty has the smallest leave-one-out error."""
    probe = Probe.on(pool, 1)
    rows = probe.features(pool[places])
    center, middle = rows.mean(0), targets.mean()
    left, sizes, right = np.linalg.svd(rows - center, full_matrices=False)
    best: tuple[float, Rows, Rows] | None = None
    for ridge in RIDGES:
        shrunk = sizes**2 / (sizes**2 + ridge * max(float((sizes**2).mean()), 1e-12))
        fitted = left @ (shrunk * (left.T @ (targets - middle)))
        leverage = (left**2 * shrunk).sum(1) + 1 / len(rows)
        missed = (targets - middle - fitted) / np.maximum(1 - leverage, 1e-6)  # of each, left out
        error = float((missed**2).mean())
        if best is None or error < best[0]:
            slope = right.T @ (
                np.divide(shrunk, sizes, out=np.zeros_like(sizes), where=sizes > 0)
                * (left.T @ (targets - middle))
            )
            best = error, slope, targets - missed
    assert best is not None
    _, slope, held = best
    probe.set(slope[None], np.array([middle - center @ slope]))
    return TrainedProbe(probe, held[:, None])


def reduce_rows(rows: Rows) -> tuple[Rows, Rows]:
    """Return rows (m, r) in a basis (r, d) of the space they span, and that basis."""
    if len(rows) >= rows.shape[1]:
        return rows, np.eye(rows.shape[1])
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > values.max(initial=0) * 1e-10
    sizes = np.sqrt(values[kept])
    return vectors[:, kept] * sizes, (vectors[:, kept] / sizes).T @ rows


def _fit_path(
    loss: Loss, rows: Rows, targets: Rows, penalties: tuple[float, ...] = PENALTIES
) -> list[tuple[Rows, Rows]]:
    """Return weights (c, r) and biases (c,) for each penalty; each starts where the stronger one ended."""
    classes, width = targets.shape[1], rows.shape[1]
    start = np.zeros((classes, width + 1))
    found = []
    for penalty in penalties:
        holds = np.append(np.full(width, penalty), BIAS_PENALTY)

        def slope(flat: Rows, holds: Rows = holds) -> tuple[float, Rows]:
            both = flat.reshape(classes, width + 1)
            logits = rows @ both[:, :-1].T + both[:, -1]
            away = (loss.probabilities(logits) - targets) / len(rows)
            value = loss.value(logits, targets) + 0.5 * float((holds * both**2).sum())
            return value, (np.column_stack([away.T @ rows, away.sum(0)]) + holds * both).ravel()

        done = minimize(slope, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS})
        start = done.x.reshape(classes, width + 1)
        found.append((start[:, :-1], start[:, -1]))
    return found


def _draw_folds(count: int, seed: int) -> NDArray[np.int64]:
    """Return the fold that each example is left out of; with few examples each has its own."""
    order = np.random.default_rng(derive(seed, "folds")).permutation(count)
    return order % min(FOLDS, count)


def _fit_temperature(loss: Loss, logits: Rows, targets: Rows) -> float:
    """Return the temperature of the logits that minimizes the loss."""
    found = minimize_scalar(
        lambda log: loss.value(logits / np.exp(log), targets), bounds=(-2, 3), method="bounded"
    )
    return float(np.exp(found.x))
