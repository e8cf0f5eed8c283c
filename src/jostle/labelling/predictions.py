"""What a round's model says of every example, in a file that the page reads without the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jostle.labelling.answers import AnswerKind, Classes, Stored

FILE = "predictions.npz"
EVEN = 0.5  # a class of several is predicted when it is likelier than not


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions by example; those of examples it was trained on are made without them."""

    kind: AnswerKind
    keys: Sequence[str]  # (n,)
    numbers: NDArray[np.int64]  # (c,) of the classes it knows; none for a number
    scores: NDArray[np.float32]  # (n, c) probabilities, or (n, 1) the number
    sure: bool = True  # whether held-out predictions were made for what it was trained on

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each key stands."""
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """How sure it is of what it says, (n,): of several classes, of the one it is least sure of."""
        if self.kind == "several":
            return np.maximum(self.scores, 1 - self.scores).min(1)  # type: ignore[no-any-return]
        return self.scores.max(1) if self.kind == "one" else np.full(len(self.keys), np.nan, dtype=np.float32)

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """The numbers of the likeliest class, (n,)."""
        likeliest: NDArray[np.int64] = self.numbers[self.scores.argmax(1)]
        return likeliest

    def answer(self, place: int, classes: Classes) -> Stored:
        """The prediction at a place, as an answer would be stored."""
        if self.kind == "number":
            return float(self.scores[place, 0])
        if self.kind == "one":
            return classes.merged[int(self.best[place])]
        chosen = self.numbers[self.scores[place] > EVEN]
        return sorted({classes.merged[int(number)] for number in chosen})

    def at(self, keys: Sequence[str]) -> Predictions:
        """Those of some examples only."""
        return replace(self, keys=keys, scores=self.scores[[self.places[key] for key in keys]])

    def save(self, folder: Path) -> None:
        """Write them down, probabilities with 16 bits."""
        keys = np.frombuffer(b"".join(bytes.fromhex(key) for key in self.keys), dtype="V16")
        scores = self.scores if self.kind == "number" else self.scores.astype(np.float16)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{FILE}.part"
        with part.open("wb") as file:
            np.savez(
                file,
                kind=np.array(self.kind),
                keys=keys,
                numbers=self.numbers,
                scores=scores,
                sure=np.array(self.sure),
            )
        part.replace(folder / FILE)

    @classmethod
    def load(cls, folder: Path) -> Predictions | None:
        """The predictions of a round; None where its model is not on this machine."""
        path = folder / FILE
        if not path.exists():
            return None
        with np.load(path) as held:
            kind: Any = str(held["kind"])
            keys = [key.tobytes().hex() for key in held["keys"]]
            return cls(kind, keys, held["numbers"], held["scores"].astype(np.float32), bool(held["sure"]))
