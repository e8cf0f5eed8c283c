"""Records that a session returns; the page and notebooks read the same ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import Answer, AnswerKind, Classes, StoredAnswer
from jostle.labeling.sources.contents import Question
from jostle.labeling.store import Purpose, Store


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of the last model on examples that were never picked, by the random audit alone.

    For numbers it is the mean absolute error, smaller is better, and errors above `scale` count as `scale`.
    """

    measure: Literal["accuracy", "mean error"]
    estimate: float | None  # None before the first audited answer
    low: float
    high: float
    confidence: float  # that all such intervals of the project hold together
    audited: int
    population: int  # examples that were never picked, the audited ones included
    round: int  # of the model; 0 where there is none yet
    goal: float | None
    reached: bool  # the bound that matters has passed the goal
    scale: float | None = None


@dataclass(frozen=True)
class NewData:
    """Accuracy, or mean error, of the last model on new data like this, for this model alone."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Proof:
    """Forecast of the random answers that prove the goal."""

    questions: int | None  # in half of the simulations so many more are enough; None: more than `limit`
    limit: int  # most further answers that were simulated
    asking: int  # random questions that are asked for a proof at present; 0: no proof is under way


@dataclass(frozen=True)
class Recall:
    """How much of one class was found."""

    name: str  # of the class
    low: float  # share that was found at least
    found: int
    missed: int  # at most
    goal: float
    reached: bool


@dataclass(frozen=True)
class ClassFigures:
    """Lower bounds for one class; None where there are too few audited answers."""

    name: str
    answered: int  # audited examples of this class
    precision: float | None  # share of the predicted examples that belong to the class
    recall: float | None  # share of the class that is predicted


@dataclass(frozen=True)
class Confusion:
    """A pair of classes that the model confuses, with examples."""

    answer: str
    prediction: str
    count: int
    examples: tuple[Question, ...]


@dataclass(frozen=True)
class Noise:
    """How much of the error is disagreement of people."""

    answer_error: float  # estimated share of wrong answers
    model_error: float  # estimated error of the model, were all answers right
    twice: int  # examples that two people answered


@dataclass(frozen=True)
class SavedLabels:
    """Estimate of the answers that picking saved."""

    random_labels: int  # that random picking would need for the error of `picks` picks
    picks: float
    low: float | None  # of the answers saved, in a bootstrap interval
    high: float
    minutes: float | None  # saved, by the median time of an answer


@dataclass(frozen=True)
class Point:
    """One model on the curve, measured by today's audit."""

    round: int
    trained: int  # answers it learned from
    estimate: float
    low: float
    high: float
    kappa: float | None  # with the model before


@dataclass(frozen=True)
class Advice:
    """Advice to go on or to stop, with reasons."""

    stop: bool
    headline: str
    reasons: tuple[str, ...]
    gain: (
        float | None
    )  # what the next hundred answers add to the accuracy, or take from the error, by an estimate
    details: tuple[str, ...] = ()  # how it is computed, in the words of statistics


@dataclass(frozen=True)
class Suggestion:
    """Model's answer to a question."""

    answer: Answer
    confidence: float | None  # None for a number
    round: int


@dataclass(frozen=True)
class Match:
    """Example of the grid or of a search, with the model's answer."""

    question: Question
    answer: Answer | None = None
    suggestion: Suggestion | None = None


@dataclass(frozen=True)
class Doubt:
    """An answer that the model, without having seen it, would not have given."""

    question: Question
    answer: Answer
    people: tuple[str, ...]
    suggestion: Suggestion
    strength: float  # the probability that the answer is a mistake


@dataclass(frozen=True)
class Disagreement:
    """An example that people answered differently."""

    question: Question
    answers: Mapping[str, Answer]  # by person
    consensus: Answer


@dataclass(frozen=True)
class Entry:
    """One line of the list of all answers."""

    question: Question
    person: str
    act: Literal["answer", "correction", "skip"]
    answer: Answer | None
    purpose: Purpose
    seconds: float | None
    at: float  # seconds since 1970
    here: bool  # whether its content still exists


@dataclass(frozen=True)
class Entries:
    """A page of the list."""

    entries: tuple[Entry, ...]
    total: int
    page: int  # from 1
    pages: int


@dataclass(frozen=True)
class Status:
    """Status of the background process."""

    doing: str = ""  # reading, encoding, training or ranking
    done: int = 0
    of: int = 0
    problem: str = ""  # why the last round failed; "" where it did not
    note: str = ""  # what a user should know of the model
    at: float = 0.0
    seconds_left: float | None = None  # of encoding


@dataclass(frozen=True)
class SuggesterStatus:
    """Status of the suggestions of another model."""

    source: str  # digest of what makes them
    name: str  # a file, a function or a model
    calls: int = 0  # to an address so far
    limit: int | None = None  # most calls; None: any number
    problem: str = ""  # why the last attempt failed; "" where it did not
    stamp: str = ""  # state of a file of predictions when it was read


@dataclass(frozen=True)
class SecondOpinion:
    """Suggestion of another model than the project's."""

    name: str
    answer: Answer
    confidence: float | None


@dataclass(frozen=True)
class Progress:
    """Progress of a session: everything that the view Progress shows."""

    kind: AnswerKind
    examples: int  # that can be shown; near-copies count as one
    copies: int  # near-copies beside them, which are not asked
    unreadable: Mapping[str, str]  # name -> problem, the first few
    unreadable_count: int
    indexed: bool  # whether everything was read once
    answered: int
    skipped: int
    left: int
    counts: Mapping[str, int]  # answers by class
    people: Mapping[str, int]  # answers by person
    per_minute: float
    accuracy: Accuracy
    new_data: NewData | None  # None without an audit, or without held-out predictions
    classes: tuple[ClassFigures, ...]  # empty where answers are not one class
    confusions: tuple[Confusion, ...]
    noise: Noise | None
    savings: SavedLabels | None
    recall: Recall | None  # None unless a class is searched for
    proof: Proof | None  # None without a goal, and once it is proven
    curve: tuple[Point, ...]
    kappas: tuple[float, ...]
    stable: bool
    change_bound: float | None  # the most by which F can still differ between the last two models
    agreement: float | None  # Krippendorff's alpha; None where nobody answered the same
    suggested: NewData | None  # accuracy of suggestions of another model; None before one was audited
    suggester: SuggesterStatus | None  # None where the project has no such suggestions
    suggestions: int  # examples that have one
    advice: Advice
    round: int
    models: int  # so far; fewer than rounds, as the first rankings need none
    status: Status


PREDICTIONS_FILE = "predictions.npz"


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions by example; those of training examples are out of sample."""

    kind: AnswerKind
    keys: Sequence[str]  # (n,)
    numbers: NDArray[np.int64]  # (c,) of the classes it knows; none for a number
    scores: NDArray[np.float32]  # (n, c) probabilities, or (n, 1) the number
    out_of_sample: bool = True  # whether held-out predictions were made for what it was trained on
    chances: NDArray[np.float32] | None = None  # (n,) calibrated, of being wrong; None: as of release 0.2

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Position of each key."""
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """Probability of the answer, (n,); for several classes that of the least sure one."""
        return ANSWER_TYPES[self.kind].confidence(self.scores)

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """Number of the likeliest class, (n,)."""
        likeliest: NDArray[np.int64] = self.numbers[self.scores.argmax(1)]
        return likeliest

    def answer(self, place: int, classes: Classes) -> StoredAnswer:
        """Return the prediction at a place, as an answer would be stored."""
        return ANSWER_TYPES[self.kind].predict(self.scores[place], self.numbers, classes)

    def suggestion(self, key: str, classes: Classes, round: int) -> Suggestion:
        """Return the prediction of an example in words; `round` is that of the model."""
        place = self.places[key]
        sure = float(self.confidence[place])
        answer = ANSWER_TYPES[self.kind].decode(self.answer(place, classes), classes)
        return Suggestion(answer, None if math.isnan(sure) else sure, round)

    @cached_property
    def certainty(self) -> NDArray[np.float64]:
        """Probability of the whole answer, (n,): for several classes the product over them; 1 / 2 for a number."""
        return ANSWER_TYPES[self.kind].certainty(self.scores)

    @cached_property
    def expected_errors(self) -> NDArray[np.float64]:
        """Chance of being wrong, (n,); predictions of release 0.2 take the model's probabilities as they are."""
        found = 1 - self.certainty if self.chances is None else self.chances.astype(np.float64)
        return found.clip(0, 1)

    def subset(self, keys: Sequence[str]) -> Predictions:
        """Return the predictions of some examples."""
        places = [self.places[key] for key in keys]
        chances = None if self.chances is None else self.chances[places]
        return replace(self, keys=keys, scores=self.scores[places], chances=chances)

    def save(self, folder: Path) -> None:
        """Write a file, probabilities with 16 bits."""
        keys = np.frombuffer(b"".join(bytes.fromhex(key) for key in self.keys), dtype="V16")
        scores = self.scores.astype(ANSWER_TYPES[self.kind].score_type)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{PREDICTIONS_FILE}.part"
        with part.open("wb") as file:
            np.savez(
                file,
                kind=np.array(self.kind),
                keys=keys,
                numbers=self.numbers,
                scores=scores,
                sure=np.array(self.out_of_sample),
                chances=np.zeros(0) if self.chances is None else self.chances.astype(np.float16),
            )
        part.replace(folder / PREDICTIONS_FILE)

    @classmethod
    def load(cls, folder: Path) -> Predictions | None:
        """Read the predictions of a round; None where its model is not on this machine."""
        path = folder / PREDICTIONS_FILE
        if not path.exists():
            return None
        with np.load(path) as held:
            kind: Any = str(held["kind"])
            keys = [key.tobytes().hex() for key in held["keys"]]
            kept = "chances" in held and len(held["chances"]) == len(keys)
            chances = held["chances"].astype(np.float32) if kept else None
            scores = held["scores"].astype(np.float32)
            return cls(kind, keys, held["numbers"], scores, bool(held["sure"]), chances)


def read_status(store: Store) -> Status:
    """Read the last status of the background process; an empty one where there is none."""
    return Status(**(store.setting("status") or {}))


def write_status(store: Store, **status: Any) -> None:
    """Write the status of the background process, fields of `Status`."""
    store.save_settings(False, status=asdict(Status(**status, at=store.clock())))
