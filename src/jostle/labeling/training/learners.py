"""Learners from answers: a probe on a frozen encoder, or a model of the user's own.

A probe is a linear layer on embeddings that is trained in seconds: softmax for one class, sigmoids for several, ridge
for a number. How much the weights are held back is chosen by five-fold cross-validation, whose predictions also scale
the temperature, so that confidences mean what they say, and are what each training example gets without having been
seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from torch import Tensor, nn

from jostle.core import Joined
from jostle.datasets.data import Fields, as_dataset, split_columns, take_rows
from jostle.inference.reader import output_of
from jostle.labeling.answer_types import AnswerType
from jostle.labeling.sources import GoneError, Index, ProgressCallback
from jostle.labeling.sources.contents import Cell
from jostle.labeling.training import encoders
from jostle.rng import derive
from jostle.tasks import TASKS
from jostle.training.train import Recipe, forward, train
from jostle.utils.user_files import from_file

Rows = NDArray[np.float64]
Stop = Callable[[], bool]

PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5)  # on squared weights, of rows with length 1; the first is the strongest
RIDGES = 10.0 ** np.arange(-4, 5)  # relative to the mean squared singular value
PICTURE_SIDE = 224  # of the pictures that a user's own model is given
MEAN, STD = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
RECIPE = Recipe(epochs=20, batch=32, optimizer="adam", lr=1e-3)  # for a model that brings no fit


class Probe(nn.Module):
    """Linear layer on embeddings that are shifted to mean 0 and scaled to mean length 1: (n, d) -> (n, c).

    The whole pool decides shift and scale. Weights are zero until they are set.
    """

    def __init__(self, pool: NDArray[np.float32], classes: int) -> None:
        super().__init__()
        shift = pool.mean(0, dtype=np.float64)
        scale = float(np.sqrt(((pool - shift) ** 2).sum(1).mean())) or 1.0
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", torch.from_numpy(shift).float())
        self.register_buffer("scale", torch.tensor(scale))
        self.head = nn.Linear(pool.shape[1], classes)
        self.set(np.zeros((classes, pool.shape[1])), np.zeros(classes))

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


class Loss(NamedTuple):
    """Loss of a linear classifier for logits (m, c) and targets (m, c) of zeros and ones."""

    value: Callable[[Rows, Rows], float]
    """Mean over examples."""
    probabilities: Callable[[Rows], Rows]
    """(m, c); the gradient of the loss is these less the targets, over m."""


SOFTMAX = Loss(  # exactly one class is right
    lambda logits, targets: -float((log_softmax(logits, axis=1) * targets).sum(1).mean()),
    lambda logits: softmax(logits, axis=1),
)
SIGMOIDS = Loss(  # each class is right or not by itself
    lambda logits, targets: float((np.logaddexp(0, logits) - targets * logits).sum(1).mean()), expit
)


def fit_classifier(
    loss: Loss, pool: NDArray[np.float32], places: NDArray[np.int64], targets: Rows, seed: int
) -> tuple[Probe, Rows]:
    """Fit a probe for classes: targets (m, c) of zeros and ones, for the pool's examples at `places`.

    Returns:
        The probe, and the probabilities (m, c) that each example gets from probes that have not seen it.
    """
    probe = Probe(pool, targets.shape[1])
    rows, basis = reduce_rows(probe.features(pool[places]))
    order = np.random.default_rng(derive(seed, "folds")).permutation(len(rows))
    folds = order % min(5, len(rows))
    held = np.zeros((len(PENALTIES), *targets.shape))
    for fold in range(int(folds.max()) + 1):
        inside, outside = folds != fold, folds == fold
        for place, (weight, bias) in enumerate(_fit_path(loss, rows[inside], targets[inside])):
            held[place, outside] = rows[outside] @ weight.T + bias
    warmths = [_fit_temperature(loss, logits, targets) for logits in held]
    scaled = [logits / warmth for logits, warmth in zip(held, warmths, strict=True)]
    best = int(np.argmin([loss.value(logits, targets) for logits in scaled]))
    weight, bias = _fit_path(loss, rows, targets, PENALTIES[: best + 1])[-1]
    probe.set(weight @ basis / warmths[best], bias / warmths[best])
    return probe, loss.probabilities(scaled[best])


def fit_regressor(pool: NDArray[np.float32], places: NDArray[np.int64], targets: Rows) -> tuple[Probe, Rows]:
    """Fit a probe for a number by ridge regression; the penalty has the smallest leave-one-out error.

    Returns:
        The probe, and the number (m, 1) that each example gets when it is left out.
    """
    probe = Probe(pool, 1)
    rows = probe.features(pool[places])
    center, middle = rows.mean(0), targets.mean()
    left, sizes, right = np.linalg.svd(rows - center, full_matrices=False)
    projected = left.T @ (targets - middle)
    penalties = RIDGES[:, None] * max(float((sizes**2).mean()), 1e-12)
    factors = sizes / (sizes**2 + penalties)  # (ridges, r)
    shrunk = sizes * factors
    leverage = shrunk @ (left**2).T + 1 / len(rows)
    away = targets - middle - (shrunk * projected) @ left.T
    off = away / np.maximum(1 - leverage, 1e-6)  # (ridges, m) of each example, left out
    best = int((off**2).mean(1).argmin())
    slope = (factors[best] * projected) @ right
    probe.set(slope[None], np.array([middle - center @ slope]))
    return probe, (targets - off[best])[:, None]


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
        holds = np.append(np.full(width, penalty), 1e-4)  # the bias of a class that nobody chose stays finite

        def slope(flat: Rows, holds: Rows = holds) -> tuple[float, Rows]:
            both = flat.reshape(classes, width + 1)
            logits = rows @ both[:, :-1].T + both[:, -1]
            away = (loss.probabilities(logits) - targets) / len(rows)
            value = loss.value(logits, targets) + 0.5 * float((holds * both**2).sum())
            return value, (np.column_stack([away.T @ rows, away.sum(0)]) + holds * both).ravel()

        done = minimize(slope, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
        start = done.x.reshape(classes, width + 1)
        found.append((start[:, :-1], start[:, -1]))
    return found


def _fit_temperature(loss: Loss, logits: Rows, targets: Rows) -> float:
    """Return the temperature of the logits that minimizes the loss."""
    found = minimize_scalar(
        lambda log: loss.value(logits / np.exp(log), targets), bounds=(-2, 3), method="bounded"
    )
    return float(np.exp(found.x))


@dataclass(frozen=True, eq=False)
class TrainingTargets:
    """Targets of the examples at some places of the pool."""

    type: AnswerType
    numbers: Sequence[int]  # of the classes that outputs stand for, in order
    places: NDArray[np.int64]  # (m,)
    values: NDArray[np.float64]  # (m,) the place of the class, or the number; (m, c) zeros and ones


@dataclass(frozen=True, eq=False)
class Model:
    """Trained model, and its predictions for the whole pool."""

    network: nn.Module
    scores: NDArray[np.float32]  # (n, c) probabilities, or (n, 1) the number
    held_out: NDArray[np.float32] | None  # (m, c) of the training examples, without them; None: not computed


def labeled_dataset(pool: Any, targets: TrainingTargets) -> Any:
    """Return the labeled examples as a dataset of (x, y)."""
    inputs, values = take_rows(pool, torch.from_numpy(targets.places)), torch.from_numpy(targets.values)
    return as_dataset(inputs, values.long() if targets.type.has_one_class else values.float())


class ProbeLearner:
    """Probe on rows: embeddings of pictures and texts, or encoded rows of a table."""

    def __init__(self, index: Index, cache: Path, encoder: str | None) -> None:
        self.index, self.kind = index, index.source.kind
        self.rows: Mapping[str, Mapping[str, Cell]] = {}  # of a table, once a round has read it
        if self.kind == "row":
            if encoder is not None:
                raise ValueError(f"rows of a table are scaled and need no encoder; got {encoder!r}")
            self.note = getattr(index.source, "note", "")
            return
        self.encoder = encoders.encoder_for(self.kind, encoder)
        self.note = self.encoder.note
        self.file = encoders.VectorFile(cache, self.encoder.name)

    def encode(self, keys: Sequence[str], progress: ProgressCallback | None, stop: Stop) -> bool:
        """Encode examples in this order until `stop` says so; return whether all are.

        Rows of a table are encoded when they are used.
        """
        return self.kind == "row" or encoders.embed(self.index, self.encoder, self.file, keys, progress, stop)

    def prepare(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are encoded."""
        if self.kind == "row":
            self.rows = {content.key: content.fields or {} for content in self.index.source.contents()}
        return self.encoded_keys(keys)

    def encoded_keys(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are encoded; rows of a table are once a round has read them."""
        known = self.rows if self.kind == "row" else self.file.known()
        return [key for key in keys if key in known]

    def pool(self, keys: Sequence[str]) -> Tensor:
        """Return rows (n, d)."""
        if self.kind == "row":
            return torch.from_numpy(encoders.encode_rows([self.rows[key] for key in keys]))
        return torch.from_numpy(self.file.take(keys))

    def untrained(self, pool: Tensor) -> nn.Module:
        """Return a probe without weights: its features, the rows, tell how similar examples are."""
        return Probe(pool.numpy(), 2)

    def learn(self, pool: Tensor, targets: TrainingTargets, seed: int) -> Model:
        """Train the probe of this kind of answer."""
        rows = pool.numpy()
        if not targets.type.has_classes:
            probe, held_out = fit_regressor(rows, targets.places, targets.values)
        elif targets.type.has_one_class:
            ones = np.eye(len(targets.numbers))[targets.values.astype(np.int64)]
            probe, held_out = fit_classifier(SOFTMAX, rows, targets.places, ones, seed)
        else:
            probe, held_out = fit_classifier(SIGMOIDS, rows, targets.places, targets.values, seed)
        with torch.inference_mode():
            outputs = torch.cat([probe(part) for part in pool.split(8192)])
        return Model(probe, to_scores(targets.type, outputs), held_out.astype(np.float32))


class CustomLearner:
    """User's own model: `build(outputs)` or `build()` makes it, `fit(model, dataset, seed)` trains it."""

    note = ""

    def __init__(self, index: Index, build: str | None, fit: str | None, tokenizer: str | None) -> None:
        if build is None:
            raise ValueError("--fit trains the model that --model builds: name both")
        self.index, self.kind, self.tokenizer = index, index.source.kind, tokenizer
        self.build, self.fit = from_file(build), None if fit is None else from_file(fit)
        if self.kind == "text" and tokenizer is None:
            raise ValueError("texts for a model of your own: name their tokenizer with --encoder")

    def encode(self, keys: Sequence[str], progress: ProgressCallback | None, stop: Stop) -> bool:
        """Return True: nothing needs an encoder."""
        return True

    def encoded_keys(self, keys: Sequence[str]) -> list[str]:
        """Return no keys: a model of one's own has no rows."""
        return []

    def prepare(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that can be read."""
        if self.kind == "image":
            return list(keys)
        self.contents = {content.key: content for content in self.index.source.contents()}
        return [key for key in keys if key in self.contents]

    def pool(self, keys: Sequence[str]) -> Any:
        """Return pictures read when they are needed, encoded rows, or tokens."""
        if self.kind == "image":
            return PicturePool(self.index, tuple(keys))
        if self.kind == "row":
            return torch.from_numpy(encoders.encode_rows([self.contents[key].fields or {} for key in keys]))
        texts = [self.contents[key].texts for key in keys]
        tokenizer = encoders.import_transformers().AutoTokenizer.from_pretrained(self.tokenizer)
        sides = [list(side) for side in zip(*texts, strict=True)]
        tokens = tokenizer(*sides, padding=True, truncation=True, return_tensors="pt")
        return Fields(dict(tokens), mask="attention_mask")

    def untrained(self, pool: Any) -> nn.Module:
        """Return the model as it is built."""
        return self.build_model(2).eval()

    def build_model(self, outputs: int) -> nn.Module:
        """Build a new model."""
        takes = [p for p in inspect.signature(self.build).parameters.values() if p.default is p.empty]
        made = self.build(outputs) if takes else self.build()
        if not isinstance(made, nn.Module):
            raise TypeError(f"--model returned {type(made).__name__}; expected a torch.nn.Module")
        return made

    def learn(self, pool: Any, targets: TrainingTargets, seed: int) -> Model:
        """Build and train a new model; training examples are predicted after having been seen."""
        dataset = labeled_dataset(pool, targets)
        torch.manual_seed(seed)
        network = self.build_model(len(targets.numbers) or 1)
        if self.fit is not None:
            network = (self.fit(network, dataset, seed) or network).eval()
        else:
            columns = split_columns(dataset)
            network = train(Joined(network), *columns, RECIPE, TASKS[targets.type.task], seed=seed)
        with torch.inference_mode():
            parts = [output_of(forward(network, pool[index])) for index in torch.arange(len(pool)).split(64)]
        return Model(network, to_scores(targets.type, torch.cat(parts)), None)


Learner = ProbeLearner | CustomLearner


@dataclass(frozen=True, eq=False)
class PicturePool:
    """Pictures by position as normalized tensors (n, 3, 224, 224), decoded when they are asked for."""

    by_batch: ClassVar[bool] = True

    index: Index
    keys: Sequence[str]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, position: int | Tensor) -> Tensor:
        if isinstance(position, Tensor) and position.dim():
            return torch.stack([self[int(i)] for i in position])
        try:
            pixels = encoders.load_picture(self.index.content(self.keys[int(position)]), PICTURE_SIDE)
        except (GoneError, ValueError):  # a file that vanished meanwhile is gray
            return torch.zeros(3, PICTURE_SIDE, PICTURE_SIDE)
        return (torch.from_numpy(pixels).float() / 255 - MEAN) / STD


def to_scores(type: AnswerType, outputs: Tensor) -> NDArray[np.float32]:
    """Return outputs as probabilities (n, c), or numbers (n, 1)."""
    rows = outputs.float().reshape(len(outputs), -1)
    return (TASKS[type.task].probabilities(rows) if type.has_classes else rows).cpu().numpy()
