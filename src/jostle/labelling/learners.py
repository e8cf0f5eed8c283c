"""What learns from answers: a probe on a frozen encoder, or a model of the user's own."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from jostle.core.joined import Joined
from jostle.datasets.views import Examples, columns_of, part_of
from jostle.labelling.answers import AnswerKind, Stored, class_of, number_of, set_of
from jostle.labelling.coding import coded
from jostle.labelling.encoders import encoder_for, needed, picture
from jostle.labelling.index import GoneError, Index, Progress
from jostle.labelling.probe import Probe, Sigmoids, Softmax, classifier, regressor
from jostle.labelling.vectors import VectorFile, embed
from jostle.plumbing.user_files import from_file
from jostle.scoring.network import output_of
from jostle.tasks import TASKS, Task
from jostle.training.train import Recipe, forward, train

FEWEST_NUMBERS = 5  # answers before a number is learnt
SIDE = 224  # of the pictures that a user's own model is given
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RECIPE = Recipe(epochs=20, batch=32, optimizer="adam", lr=1e-3)  # for a model that brings no fit

TASK: dict[AnswerKind, Task] = {
    "one": TASKS["classification"],
    "several": TASKS["multi-label"],
    "number": TASKS["regression"],
}


@dataclass(frozen=True, eq=False)
class Goal:
    """What is to be learnt: targets of the examples at some places of the pool."""

    kind: AnswerKind
    numbers: Sequence[int]  # of the classes that outputs stand for, in order
    places: NDArray[np.int64]  # (m,)
    targets: NDArray[np.float64]  # (m,) the place of the class, or the number; (m, c) zeros and ones

    @classmethod
    def of(
        cls, kind: AnswerKind, answers: Sequence[Stored], places: Sequence[int], numbers: Sequence[int]
    ) -> Goal:
        """Stored answers as targets."""
        where = {number: i for i, number in enumerate(numbers)}
        if kind == "several":
            table = [[float(number in set_of(answer)) for number in numbers] for answer in answers]
            targets = np.array(table, dtype=np.float64).reshape(len(answers), len(numbers))
        else:
            code = (lambda a: where[class_of(a)]) if kind == "one" else number_of
            targets = np.array([code(answer) for answer in answers], dtype=np.float64)
        return cls(kind, numbers, np.array(places, dtype=np.int64), targets)

    @property
    def enough(self) -> bool:
        """Whether there is something to tell apart."""
        if self.kind == "number":
            return len(self.places) >= FEWEST_NUMBERS
        if self.kind == "one":
            return len(set(self.targets.tolist())) > 1
        return len(self.places) > 1 and bool((self.targets.std(0) > 0).any())

    def tensor(self) -> Tensor:
        """Targets as the task wants them."""
        held = torch.from_numpy(self.targets)
        return held.long() if self.kind == "one" else held.float()


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, and what it says of the whole pool."""

    network: nn.Module
    scores: NDArray[np.float32]  # (n, c) probabilities, or (n, 1) the number
    held_out: (
        NDArray[np.float32] | None
    )  # (m, c) of the training examples, without them; None where not computed


class Learner(ABC):
    """Sees examples by key as a pool, and learns a goal on it."""

    note: str = ""  # what a user should know of it

    @abstractmethod
    def made_ready(self, keys: Sequence[str], progress: Progress | None) -> list[str]:
        """Make examples ready; those that can be used."""

    def remembered(self, keys: Sequence[str]) -> list[str]:
        """Of examples that are gone, those that can still be learnt from."""
        return []

    @abstractmethod
    def pool(self, keys: Sequence[str]) -> Any:
        """The inputs of these examples, as strategies take them."""

    @abstractmethod
    def untrained(self, pool: Any) -> nn.Module:
        """A model whose features say how alike examples are, for a choice without any label."""

    @abstractmethod
    def learn(self, pool: Any, goal: Goal, seed: int) -> Model:
        """Train on a goal."""

    def labeled(self, pool: Any, goal: Goal) -> Any:
        """The labelled examples as a dataset of (x, y)."""
        inputs, targets = part_of(pool, torch.from_numpy(goal.places)), goal.tensor()
        return TensorDataset(inputs, targets) if isinstance(inputs, Tensor) else Examples(inputs, targets)


class ProbeLearner(Learner):
    """A probe on rows: embeddings of pictures and texts, or the coded rows of a table."""

    def __init__(self, index: Index, cache: Path, encoder: str | None) -> None:
        self.index, self.kind = index, index.source.kind
        if self.kind == "row":
            if encoder is not None:
                raise ValueError(f"rows of a table are scaled and need no encoder; got {encoder!r}")
            return
        self.encoder = encoder_for(self.kind, encoder)
        self.note = self.encoder.note
        self.file = VectorFile(cache, self.encoder.name)

    def made_ready(self, keys: Sequence[str], progress: Progress | None) -> list[str]:
        """Encode what has not been."""
        if self.kind == "row":
            self.rows = {content.key: content.fields or {} for content in self.index.source.contents()}
            return [key for key in keys if key in self.rows]
        embed(self.index, self.encoder, self.file, keys, progress)
        known = self.file.known()
        return [key for key in keys if key in known]

    def remembered(self, keys: Sequence[str]) -> list[str]:
        """Those whose embeddings were kept."""
        known = {} if self.kind == "row" else self.file.known()
        return [key for key in keys if key in known]

    def pool(self, keys: Sequence[str]) -> Tensor:
        """Rows (n, d)."""
        rows = coded([self.rows[key] for key in keys]) if self.kind == "row" else self.file.take(keys)
        return torch.from_numpy(rows)

    def untrained(self, pool: Tensor) -> nn.Module:
        """A probe without weights: its features are the rows."""
        return Probe.on(pool.numpy(), 2)

    def learn(self, pool: Tensor, goal: Goal, seed: int) -> Model:
        """Train the probe of this kind of answer."""
        rows = pool.numpy()
        if goal.kind == "number":
            made = regressor(rows, goal.places, goal.targets)
        elif goal.kind == "one":
            ones = np.eye(len(goal.numbers))[goal.targets.astype(np.int64)]
            made = classifier(Softmax(), rows, goal.places, ones, seed)
        else:
            made = classifier(Sigmoids(), rows, goal.places, goal.targets, seed)
        with torch.inference_mode():
            outputs = torch.cat([made.probe(part) for part in pool.split(8192)])
        return Model(made.probe, scores(goal.kind, outputs), made.held_out.astype(np.float32))


class OwnLearner(Learner):
    """A model of the user's: `build(outputs)` or `build()` makes it, `fit(model, dataset, seed)` trains it."""

    def __init__(self, index: Index, build: str | None, fit: str | None, tokenizer: str | None) -> None:
        if build is None:
            raise ValueError("--fit trains the model that --model builds: name both")
        self.index, self.kind, self.tokenizer = index, index.source.kind, tokenizer
        self.build, self.fit = from_file(build), None if fit is None else from_file(fit)
        if self.kind == "text" and tokenizer is None:
            raise ValueError(
                "texts for a model of your own: name the tokeniser that reads them with --encoder"
            )

    def made_ready(self, keys: Sequence[str], progress: Progress | None) -> list[str]:
        """Keep what can be read."""
        if self.kind != "image":
            self.contents = {content.key: content for content in self.index.source.contents()}
            return [key for key in keys if key in self.contents]
        return list(keys)

    def pool(self, keys: Sequence[str]) -> Any:
        """Pictures read when they are needed, coded rows, or tokens."""
        if self.kind == "image":
            return Pictures(self.index, tuple(keys))
        if self.kind == "row":
            return torch.from_numpy(coded([self.contents[key].fields or {} for key in keys]))
        from jostle.datasets.data import Fields

        texts = [self.contents[key].texts for key in keys]
        tokens = needed().AutoTokenizer.from_pretrained(self.tokenizer)(
            *(list(side) for side in zip(*texts, strict=True)),
            padding=True,
            truncation=True,
            return_tensors="pt",
        )
        return Fields(dict(tokens), mask="attention_mask")

    def untrained(self, pool: Any) -> nn.Module:
        """The model as it is built."""
        return self.built(2).eval()

    def built(self, outputs: int) -> nn.Module:
        """A fresh model."""
        takes = [p for p in inspect.signature(self.build).parameters.values() if p.default is p.empty]
        made = self.build(outputs) if takes else self.build()
        if not isinstance(made, nn.Module):
            raise TypeError(f"--model returned {type(made).__name__}; expected a torch.nn.Module")
        return made

    def learn(self, pool: Any, goal: Goal, seed: int) -> Model:
        """Build and train afresh; training examples are predicted as they are, seen."""
        network = self.trained(self.labeled(pool, goal), goal, seed)
        with torch.inference_mode():
            parts = [output_of(forward(network, pool[index])) for index in torch.arange(len(pool)).split(64)]
        return Model(network, scores(goal.kind, torch.cat(parts)), None)

    def trained(self, dataset: Any, goal: Goal, seed: int) -> nn.Module:
        """The user's fit where there is one, else our own."""
        outputs = 1 if goal.kind == "number" else len(goal.numbers)
        torch.manual_seed(seed)
        network = self.built(outputs)
        if self.fit is not None:
            return (self.fit(network, dataset, seed) or network).eval()
        return train(Joined(network), *columns_of(dataset), RECIPE, TASK[goal.kind], seed=seed)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures by position as normalised tensors (n, 3, 224, 224), decoded when they are asked for."""

    by_batch: ClassVar[bool] = True

    index: Index
    keys: Sequence[str]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, position: int | Tensor) -> Tensor:
        if isinstance(position, Tensor) and position.dim():
            return torch.stack([self.one(int(i)) for i in position])
        return self.one(int(position))

    def one(self, position: int) -> Tensor:
        """One picture; a file that vanished meanwhile is grey."""
        try:
            pixels = torch.from_numpy(picture(self.index.content(self.keys[position]), SIDE)).float() / 255
        except (GoneError, ValueError):
            return torch.zeros(3, SIDE, SIDE)
        return (pixels - self.mean) / self.std

    @cached_property
    def mean(self) -> Tensor:
        """Of each colour."""
        return torch.tensor(MEAN).view(3, 1, 1)

    @cached_property
    def std(self) -> Tensor:
        """Of each colour."""
        return torch.tensor(STD).view(3, 1, 1)


def scores(kind: AnswerKind, outputs: Tensor) -> NDArray[np.float32]:
    """Outputs as probabilities (n, c), or numbers (n, 1)."""
    rows = outputs.float().reshape(len(outputs), -1)
    return (rows if kind == "number" else TASK[kind].probabilities(rows)).cpu().numpy()
