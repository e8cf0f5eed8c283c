"""What a session says of itself, as records: the page and notebooks read the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jostle.labelling.answers import Answer, AnswerKind
from jostle.labelling.contents import Question


@dataclass(frozen=True)
class Accuracy:
    """How good the last model is on examples that were never picked, by the random audit alone.

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
class Point:
    """One model on the curve, measured by today's audit."""

    round: int
    trained: int  # answers it learnt from
    estimate: float
    low: float
    high: float
    kappa: float | None  # with the model before


@dataclass(frozen=True)
class Advice:
    """To go on or to stop, and why."""

    stop: bool
    headline: str
    reasons: tuple[str, ...]
    gain: (
        float | None
    )  # an estimate of what the next hundred answers add to the accuracy, or take from the error


@dataclass(frozen=True)
class Suggestion:
    """What the model would answer."""

    answer: Answer
    confidence: float | None  # None for a number
    round: int


@dataclass(frozen=True)
class Card:
    """An example of the grid: what the model takes it for."""

    question: Question
    suggestion: Suggestion


@dataclass(frozen=True)
class Doubt:
    """An answer that the model, without having seen it, would not have given."""

    question: Question
    answer: Answer
    people: tuple[str, ...]
    suggestion: Suggestion
    strength: (
        float  # larger is more doubtful: the probability of another answer, or the error in typical errors
    )


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
    purpose: Literal["pick", "audit", "given", "test"]
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
    """What the background is doing."""

    doing: str  # "", reading, encoding, training or ranking
    done: int
    of: int
    problem: str  # why the last round failed; "" where it did not
    note: str  # what a user should know of the model
    at: float


@dataclass(frozen=True)
class Progress:
    """How it goes: everything the fourth view shows."""

    kind: AnswerKind
    examples: int  # that can be shown
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
    curve: tuple[Point, ...]
    kappas: tuple[float, ...]
    stable: bool
    change_bound: float | None  # the most by which F can still differ between the last two models
    agreement: float | None  # Krippendorff's alpha; None where nobody answered the same
    advice: Advice
    round: int
    models: int  # so far; fewer than rounds, as the first rankings need none
    status: Status
