"""Learners from answers: a probe on a frozen encoder, or a model of the user's own."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.core import Joined
from jostle.datasets.data import take_rows
from jostle.datasets.views import Examples, split_columns
from jostle.inference.reader import output_of
from jostle.labeling import audit
from jostle.labeling.answer_types import AnswerType
from jostle.labeling.answers import StoredAnswer, as_class
from jostle.labeling.sources.contents import Cell, GoneError, Index, ProgressCallback
from jostle.labeling.training.encoders import (
    VectorFile,
    embed,
    encode_rows,
    encoder_for,
    import_transformers,
    load_picture,
)
from jostle.labeling.training.probe import SIGMOIDS, SOFTMAX, Probe, fit_classifier, fit_regressor
from jostle.statistics.estimate import MIN_AUDITED, TRAIN_SHARE, shadow_errors
from jostle.tasks import TASKS
from jostle.training.train import Recipe, forward, train
from jostle.utils.user_files import from_file

if TYPE_CHECKING:
    from jostle.labeling.session import Session
    from jostle.labeling.training.rounds import TrainingSet

PICTURE_SIDE = 224  # of the pictures that a user's own model is given
MEAN, STD = (torch.tensor(each).view(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
RECIPE = Recipe(epochs=20, batch=32, optimizer="adam", lr=1e-3)  # for a model that brings no fit


@dataclass(frozen=True, eq=False)
class TrainingTargets:
    """Targets of the examples at some places of the pool."""

    type: AnswerType
    numbers: Sequence[int]  # of the classes that outputs stand for, in order
    places: NDArray[np.int64]  # (m,)
    values: NDArray[np.float64]  # (m,) the place of the class, or the number; (m, c) zeros and ones

    @classmethod
    def from_answers(
        cls, type: AnswerType, answers: Sequence[StoredAnswer], places: Sequence[int], numbers: Sequence[int]
    ) -> TrainingTargets:
        """Return stored answers as targets."""
        targets = type.encode_targets(answers, numbers)
        return cls(type, numbers, np.array(places, dtype=np.int64), targets)

    @property
    def is_enough(self) -> bool:
        """Whether the targets differ, so that a model can be trained."""
        return self.type.is_enough(self.values)

    def tensor(self) -> Tensor:
        """Return the targets as the task takes them."""
        held = torch.from_numpy(self.values)
        return held.long() if self.type.has_one_class else held.float()


@dataclass(frozen=True, eq=False)
class Model:
    """Trained model, and its predictions for the whole pool."""

    network: nn.Module
    scores: NDArray[np.float32]  # (n, c) probabilities, or (n, 1) the number
    held_out: NDArray[np.float32] | None  # (m, c) of the training examples, without them; None: not computed


class Learner(ABC):
    """Learner on a pool of examples by key."""

    note: str = ""  # what a user should know of it

    def encode(
        self, keys: Sequence[str], progress: ProgressCallback | None, stop: Callable[[], bool]
    ) -> bool:
        """Encode examples in this order until `stop` says so; return whether all are. Most learners need none."""
        return True

    @abstractmethod
    def prepare(self, keys: Sequence[str]) -> list[str]:
        """Return the keys of the examples that can be used now."""

    def encoded_keys(self, keys: Sequence[str]) -> list[str]:
        """Return the keys whose rows are at hand, also of examples that are gone; a model of one's own has none."""
        return []

    @abstractmethod
    def pool(self, keys: Sequence[str]) -> Any:
        """Return the inputs of these examples, as strategies take them."""

    @abstractmethod
    def untrained(self, pool: Any) -> nn.Module:
        """Return a model whose features tell how similar examples are, for a choice without any label."""

    @abstractmethod
    def learn(self, pool: Any, targets: TrainingTargets, seed: int) -> Model:
        """Train on the targets."""

    def labeled_dataset(self, pool: Any, targets: TrainingTargets) -> Any:
        """Return the labeled examples as a dataset of (x, y)."""
        inputs, values = take_rows(pool, torch.from_numpy(targets.places)), targets.tensor()
        return TensorDataset(inputs, values) if isinstance(inputs, Tensor) else Examples(inputs, values)


class ProbeLearner(Learner):
    """Probe on rows: embeddings of pictures and texts, or encoded rows of a table."""

    def __init__(self, index: Index, cache: Path, encoder: str | None) -> None:
        self.index, self.kind = index, index.source.kind
        self.rows: Mapping[str, Mapping[str, Cell]] = {}  # of a table, once a round has read it
        if self.kind == "row":
            if encoder is not None:
                raise ValueError(f"rows of a table are scaled and need no encoder; got {encoder!r}")
            self.note = getattr(index.source, "note", "")
            return
        self.encoder = encoder_for(self.kind, encoder)
        self.note = self.encoder.note
        self.file = VectorFile(cache, self.encoder.name)

    def encode(
        self, keys: Sequence[str], progress: ProgressCallback | None, stop: Callable[[], bool]
    ) -> bool:
        """Encode the examples that are not in the cache; rows of a table are encoded when they are used."""
        return self.kind == "row" or embed(self.index, self.encoder, self.file, keys, progress, stop)

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
        rows = encode_rows([self.rows[key] for key in keys]) if self.kind == "row" else self.file.take(keys)
        return torch.from_numpy(rows)

    def untrained(self, pool: Tensor) -> nn.Module:
        """Return a probe without weights: its features are the rows."""
        return Probe.on(pool.numpy(), 2)

    def learn(self, pool: Tensor, targets: TrainingTargets, seed: int) -> Model:
        """Train the probe of this kind of answer."""
        rows = pool.numpy()
        if not targets.type.has_classes:
            made = fit_regressor(rows, targets.places, targets.values)
        elif targets.type.has_one_class:
            ones = np.eye(len(targets.numbers))[targets.values.astype(np.int64)]
            made = fit_classifier(SOFTMAX, rows, targets.places, ones, seed)
        else:
            made = fit_classifier(SIGMOIDS, rows, targets.places, targets.values, seed)
        with torch.inference_mode():
            outputs = torch.cat([made.probe(part) for part in pool.split(8192)])
        return Model(made.probe, to_scores(targets.type, outputs), made.held_out.astype(np.float32))


class CustomLearner(Learner):
    """User's own model: `build(outputs)` or `build()` makes it, `fit(model, dataset, seed)` trains it."""

    def __init__(self, index: Index, build: str | None, fit: str | None, tokenizer: str | None) -> None:
        if build is None:
            raise ValueError("--fit trains the model that --model builds: name both")
        self.index, self.kind, self.tokenizer = index, index.source.kind, tokenizer
        self.build, self.fit = from_file(build), None if fit is None else from_file(fit)
        if self.kind == "text" and tokenizer is None:
            raise ValueError(
                "texts for a model of your own: name the tokenizer that reads them with --encoder"
            )

    def prepare(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that can be read."""
        if self.kind != "image":
            self.contents = {content.key: content for content in self.index.source.contents()}
            return [key for key in keys if key in self.contents]
        return list(keys)

    def pool(self, keys: Sequence[str]) -> Any:
        """Return pictures read when they are needed, encoded rows, or tokens."""
        if self.kind == "image":
            return PicturePool(self.index, tuple(keys))
        if self.kind == "row":
            return torch.from_numpy(encode_rows([self.contents[key].fields or {} for key in keys]))
        from jostle.datasets.data import Fields

        texts = [self.contents[key].texts for key in keys]
        tokens = import_transformers().AutoTokenizer.from_pretrained(self.tokenizer)(
            *(list(side) for side in zip(*texts, strict=True)),
            padding=True,
            truncation=True,
            return_tensors="pt",
        )
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
        network = self.train_model(self.labeled_dataset(pool, targets), targets, seed)
        with torch.inference_mode():
            parts = [output_of(forward(network, pool[index])) for index in torch.arange(len(pool)).split(64)]
        return Model(network, to_scores(targets.type, torch.cat(parts)), None)

    def train_model(self, dataset: Any, targets: TrainingTargets, seed: int) -> nn.Module:
        """Train by the user's fit, or by our own recipe."""
        outputs = len(targets.numbers) or 1
        torch.manual_seed(seed)
        network = self.build_model(outputs)
        if self.fit is not None:
            return (self.fit(network, dataset, seed) or network).eval()
        return train(Joined(network), *split_columns(dataset), RECIPE, TASKS[targets.type.task], seed=seed)


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
            return torch.stack([self.read(int(i)) for i in position])
        return self.read(int(position))

    def read(self, position: int) -> Tensor:
        """Decode one picture; a file that vanished meanwhile is gray."""
        try:
            pixels = load_picture(self.index.content(self.keys[position]), PICTURE_SIDE)
        except (GoneError, ValueError):
            return torch.zeros(3, PICTURE_SIDE, PICTURE_SIDE)
        return (torch.from_numpy(pixels).float() / 255 - MEAN) / STD


def to_scores(type: AnswerType, outputs: Tensor) -> NDArray[np.float32]:
    """Return outputs as probabilities (n, c), or numbers (n, 1)."""
    rows = outputs.float().reshape(len(outputs), -1)
    return (TASKS[type.task].probabilities(rows) if type.has_classes else rows).cpu().numpy()


SPLITS = 8  # of shadow models; each is trained in the background


def shadow_curve(
    session: Session, learner: Learner, training_set: TrainingSet, pool: Any, seed: int
) -> dict[str, Any]:
    """Return the errors of models that learned from audit answers alone, which stand for random picking.

    They are stored with the round and never touch its model. Empty below 60 audited answers, and where answers are not
    one class.
    """

    labels = audit.audit_sample(session).labels
    keys = [key for key in labels if key in set(training_set.keys)]
    if not session.type.has_one_class or len(keys) < MIN_AUDITED or not isinstance(learner, ProbeLearner):
        return {}
    where = {key: place for place, key in enumerate(training_set.keys)}
    rows = pool.numpy()[[where[key] for key in keys]]
    numbers, classes = np.unique([as_class(labels[key]) for key in keys], return_inverse=True)

    def train(
        inside: NDArray[np.float64], known: NDArray[np.int64], outside: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        both = np.concatenate([inside, outside]).astype(np.float32)
        targets = np.eye(len(numbers))[known]
        probe = fit_classifier(SOFTMAX, both, np.arange(len(known)), targets, seed).probe
        logits = probe.features(both[len(known) :]) @ probe.head.weight.detach().double().numpy().T
        guesses: NDArray[np.int64] = (logits + probe.head.bias.detach().double().numpy()).argmax(1)
        return guesses

    size = round(TRAIN_SHARE * len(keys))
    errors = shadow_errors(rows, classes, train, size, splits=SPLITS, seed=seed)
    return {
        "shadow": {
            "labels": size,
            "keys": keys,
            "errors": [None if np.isnan(e) else float(e) for e in errors],
        }
    }
