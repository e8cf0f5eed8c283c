"""Types of answers: how one class, several classes and a number are predicted, compared and combined.

Everything that depends on the kind of answer is a method here; other modules look a type up in `ANSWER_TYPES`. No
method needs torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jostle.labeling.answers import (
    Answer,
    AnswerKind,
    Classes,
    StoredAnswer,
    as_class,
    as_classes,
    as_number,
    parse_number,
    parse_share,
    percent,
)
from jostle.statistics.agreement import (
    class_mistakes,
    concordance,
    consensus,
    jaccard_distance,
    kappa,
    kappa_of_sets,
    nominal_distance,
    number_mistakes,
    set_mistakes,
    squared_distance,
)

Array = NDArray[np.float64]
Scores = NDArray[Any]  # (n, c) probabilities of classes, or (n, 1) numbers
Votes = Mapping[str, Mapping[str, StoredAnswer]]  # key -> person -> answer
StoredAnswers = Sequence[StoredAnswer]

EVEN = 0.5  # a class of several is predicted when it is likelier than not
MIN_NUMBERS = 5  # answers before a number is learned


class AnswerType(ABC):
    """How answers of one kind are predicted, compared and combined."""

    kind: ClassVar[AnswerKind]
    task: ClassVar[str]  # of `jostle.tasks`, which a model of these answers has
    has_classes: ClassVar[bool] = True
    has_one_class: ClassVar[bool] = False  # so that classes can be confused, and counted by their predictions
    score_type: ClassVar[type[np.floating[Any]]] = np.float16  # of scores on disk
    distance: ClassVar[Callable[..., float]]  # of two answers, for Krippendorff's alpha

    @abstractmethod
    def encode(self, answer: object, classes: Classes) -> StoredAnswer:
        """Return an answer as it is stored; raise ValueError if it is none of this kind."""

    @abstractmethod
    def decode(self, value: StoredAnswer, classes: Classes) -> Answer:
        """Return a stored answer with the current names of its classes."""

    @abstractmethod
    def find(self, words: str, classes: Classes) -> StoredAnswer | None:
        """Return the answer that the words of a model name; None where they are anything else."""

    def class_numbers(self, value: StoredAnswer) -> list[int]:
        """Return the classes in an answer."""
        return []

    def renumber(self, value: StoredAnswer, classes: Classes) -> StoredAnswer:
        """Replace merged classes of an answer by the numbers they have now."""
        return value

    def comparable(self, value: StoredAnswer) -> Any:
        """Return an answer as `distance` takes it."""
        return value

    @abstractmethod
    def combine(self, votes: Votes, numbers: Sequence[int]) -> dict[str, StoredAnswer]:
        """Return the consensus of each example."""

    @abstractmethod
    def confidence(self, scores: Scores) -> NDArray[np.float32]:
        """Return the probability of each predicted answer (n,); for several classes that of the least sure one."""

    def certainty(self, scores: Scores) -> Array:
        """Return the probability that each whole prediction is right, (n,)."""
        return self.confidence(scores).astype(np.float64)

    @abstractmethod
    def predict(self, scores: Scores, numbers: NDArray[np.int64], classes: Classes) -> StoredAnswer:
        """Return the answer that the scores (c,) of one example predict."""

    @abstractmethod
    def to_scores(self, value: StoredAnswer, chance: float, numbers: Sequence[int]) -> Sequence[float]:
        """Return the scores (c,) of a model that says this with some chance."""

    def outputs(self, answers: StoredAnswers, classes: Classes) -> list[int]:
        """Return the numbers of the classes that the outputs of a model stand for."""
        return list(classes.names)

    @abstractmethod
    def encode_targets(self, answers: StoredAnswers, numbers: Sequence[int]) -> Array:
        """Return targets: the place of the class (m,), zeros and ones (m, c), or the number (m,)."""

    def is_enough(self, targets: Array) -> bool:
        """Return whether targets differ, so that a model can be trained."""
        return len(targets) > 1 and bool(np.ptp(targets, axis=0).any())

    @abstractmethod
    def wrong(self, scores: Scores, targets: Array) -> NDArray[np.bool_]:
        """Return where predictions (m, c) miss their targets, (m,)."""

    @abstractmethod
    def stability(self, old: StoredAnswers, new: StoredAnswers, numbers: Sequence[int]) -> float:
        """Return how far the predictions of two models agree beyond chance; 1 where they are equal."""

    @abstractmethod
    def mistakes(self, scores: Array, answers: StoredAnswers, columns: Sequence[int]) -> Array:
        """Return the probability that each answer is a mistake (m,), by scores (m, c) made without it."""

    def error(self, said: StoredAnswer, true: StoredAnswer) -> float:
        """Return the error of a prediction."""
        return float(said != true)

    def parse_goal(self, words: str | float, option: str = "--goal") -> float:
        """Parse an accuracy such as 95% or 0.95; for numbers, a mean error in their unit."""
        return parse_share(words, option)

    def goal_words(self, goal: float, digits: int = 1) -> str:
        """Return a goal, or an error, as it is written."""
        return percent(goal, digits)

    def largest_error(self, goal: float, unit: float) -> float:
        """Return the mean error that a goal allows, as a share of `unit`."""
        return 1 - goal


class OneClass(AnswerType):
    """One class of several."""

    kind, task, has_one_class = "one", "classification", True
    distance = staticmethod(nominal_distance)

    def encode(self, answer: object, classes: Classes) -> StoredAnswer:
        if not isinstance(answer, str):
            raise ValueError(f"expected the name of one class; got {answer!r}")
        return classes.number(answer)

    def decode(self, value: StoredAnswer, classes: Classes) -> Answer:
        return classes.current_name(as_class(value))

    def find(self, words: str, classes: Classes) -> StoredAnswer | None:
        return classes.find(words)

    def class_numbers(self, value: StoredAnswer) -> list[int]:
        return [as_class(value)]

    def renumber(self, value: StoredAnswer, classes: Classes) -> StoredAnswer:
        return classes.merged[as_class(value)]

    def combine(self, votes: Votes, numbers: Sequence[int]) -> dict[str, StoredAnswer]:
        place = {number: i for i, number in enumerate(numbers)}
        ballots = {key: {who: place[as_class(v)] for who, v in by.items()} for key, by in votes.items()}
        return {key: numbers[i] for key, i in consensus(ballots, len(numbers)).items()}

    def confidence(self, scores: Scores) -> NDArray[np.float32]:
        return scores.max(1)  # type: ignore[no-any-return]

    def predict(self, scores: Scores, numbers: NDArray[np.int64], classes: Classes) -> StoredAnswer:
        return classes.merged[int(numbers[scores.argmax()])]

    def to_scores(self, value: StoredAnswer, chance: float, numbers: Sequence[int]) -> Sequence[float]:
        even = 1 / len(numbers)
        rest = min((1 - chance) / max(len(numbers) - 1, 1), even - 1e-3)  # the prediction stays the largest
        return [max(chance, even) if number == value else rest for number in numbers]

    def outputs(self, answers: StoredAnswers, classes: Classes) -> list[int]:
        seen = {as_class(answer) for answer in answers}
        return [number for number in classes.names if number in seen]

    def encode_targets(self, answers: StoredAnswers, numbers: Sequence[int]) -> Array:
        place = {number: i for i, number in enumerate(numbers)}
        return np.array([place[as_class(answer)] for answer in answers], dtype=np.float64)

    def wrong(self, scores: Scores, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(scores.argmax(1) != targets.astype(np.int64))

    def stability(self, old: StoredAnswers, new: StoredAnswers, numbers: Sequence[int]) -> float:
        return kappa(np.array(old, dtype=np.int64), np.array(new, dtype=np.int64))

    def mistakes(self, scores: Array, answers: StoredAnswers, columns: Sequence[int]) -> Array:
        return class_mistakes(scores, np.array([columns.index(as_class(answer)) for answer in answers]))


class SeveralClasses(AnswerType):
    """Any number of classes, none included."""

    kind, task = "several", "multi-label"
    distance = staticmethod(jaccard_distance)

    def encode(self, answer: object, classes: Classes) -> StoredAnswer:
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise ValueError(f"expected a list of class names, which may be empty; got {answer!r}")
        return sorted({classes.number(str(name)) for name in answer})

    def decode(self, value: StoredAnswer, classes: Classes) -> Answer:
        chosen = {classes.current_name(number) for number in as_classes(value)}
        return tuple(name for name in classes.names.values() if name in chosen)

    def find(self, words: str, classes: Classes) -> StoredAnswer | None:
        parts = words.split(";") if words.casefold() != "none" else []
        numbers = {classes.find(part.strip()) for part in parts}
        return None if None in numbers else sorted(number for number in numbers if number is not None)

    def class_numbers(self, value: StoredAnswer) -> list[int]:
        return as_classes(value)

    def renumber(self, value: StoredAnswer, classes: Classes) -> StoredAnswer:
        return sorted({classes.merged[number] for number in as_classes(value)})

    def comparable(self, value: StoredAnswer) -> Any:
        return frozenset(as_classes(value))

    def combine(self, votes: Votes, numbers: Sequence[int]) -> dict[str, StoredAnswer]:
        def chosen(number: int) -> dict[str, int]:
            said = {
                k: {who: int(number in as_classes(v)) for who, v in by.items()} for k, by in votes.items()
            }
            return consensus(said, 2)

        by_class = {number: chosen(number) for number in numbers}
        return {key: [number for number, said in by_class.items() if said[key]] for key in votes}

    def confidence(self, scores: Scores) -> NDArray[np.float32]:
        return np.maximum(scores, 1 - scores).min(1)  # type: ignore[no-any-return]

    def certainty(self, scores: Scores) -> Array:
        exact = scores.astype(np.float64)
        return np.maximum(exact, 1 - exact).prod(1)  # type: ignore[no-any-return]

    def predict(self, scores: Scores, numbers: NDArray[np.int64], classes: Classes) -> StoredAnswer:
        return sorted({classes.merged[int(number)] for number in numbers[scores > EVEN]})

    def to_scores(self, value: StoredAnswer, chance: float, numbers: Sequence[int]) -> Sequence[float]:
        return [float(number in as_classes(value)) for number in numbers]

    def encode_targets(self, answers: StoredAnswers, numbers: Sequence[int]) -> Array:
        return self._table(answers, numbers).astype(np.float64)

    def wrong(self, scores: Scores, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(((scores > EVEN) != (targets > EVEN)).any(1))

    def stability(self, old: StoredAnswers, new: StoredAnswers, numbers: Sequence[int]) -> float:
        return kappa_of_sets(self._table(old, numbers), self._table(new, numbers))

    def mistakes(self, scores: Array, answers: StoredAnswers, columns: Sequence[int]) -> Array:
        return set_mistakes(scores.clip(0, 1), self._table(answers, columns))

    def _table(self, answers: StoredAnswers, numbers: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether each answer has each class, (m, c)."""
        rows = [[number in as_classes(answer) for number in numbers] for answer in answers]
        return np.array(rows, dtype=bool).reshape(len(answers), len(numbers))


class Number(AnswerType):
    """Number; its error is the absolute difference."""

    kind, task, has_classes = "number", "regression", False
    score_type = np.float32
    distance = staticmethod(squared_distance)

    def encode(self, answer: object, classes: Classes) -> StoredAnswer:
        if isinstance(answer, str):
            return parse_number(answer)
        try:
            value = float(answer)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError(f"expected a number; got {answer!r}") from None
        if not math.isfinite(value) or isinstance(answer, bool):
            raise ValueError(f"expected a finite number; got {answer!r}")
        return value

    def decode(self, value: StoredAnswer, classes: Classes) -> Answer:
        return as_number(value)

    def find(self, words: str, classes: Classes) -> StoredAnswer | None:
        try:
            return parse_number(words)
        except ValueError:
            return None

    def parse_goal(self, words: str | float, option: str = "--goal") -> float:
        try:
            value = float(words)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise ValueError(f"{option} of numbers takes a mean error, such as 2.5; got {words!r}")
        return value

    def goal_words(self, goal: float, digits: int = 1) -> str:
        return f"{goal:.4g}"

    def combine(self, votes: Votes, numbers: Sequence[int]) -> dict[str, StoredAnswer]:
        return {key: float(np.median([as_number(v) for v in by.values()])) for key, by in votes.items()}

    def confidence(self, scores: Scores) -> NDArray[np.float32]:
        return np.full(len(scores), np.nan, dtype=np.float32)

    def certainty(self, scores: Scores) -> Array:
        return np.full(len(scores), 0.5)

    def predict(self, scores: Scores, numbers: NDArray[np.int64], classes: Classes) -> StoredAnswer:
        return float(scores[0])

    def to_scores(self, value: StoredAnswer, chance: float, numbers: Sequence[int]) -> Sequence[float]:
        return [as_number(value)]

    def outputs(self, answers: StoredAnswers, classes: Classes) -> list[int]:
        return []

    def encode_targets(self, answers: StoredAnswers, numbers: Sequence[int]) -> Array:
        return np.array([as_number(answer) for answer in answers], dtype=np.float64)

    def is_enough(self, targets: Array) -> bool:
        return len(targets) >= MIN_NUMBERS

    def wrong(self, scores: Scores, targets: Array) -> NDArray[np.bool_]:
        return np.asarray(scores[:, 0] != targets)

    def stability(self, old: StoredAnswers, new: StoredAnswers, numbers: Sequence[int]) -> float:
        return concordance(np.array(old, dtype=np.float64), np.array(new, dtype=np.float64))

    def mistakes(self, scores: Array, answers: StoredAnswers, columns: Sequence[int]) -> Array:
        return number_mistakes(scores[:, 0], np.array([as_number(answer) for answer in answers]))

    def error(self, said: StoredAnswer, true: StoredAnswer) -> float:
        return abs(as_number(said) - as_number(true))

    def largest_error(self, goal: float, unit: float) -> float:
        return goal / unit


ANSWER_TYPES: dict[AnswerKind, AnswerType] = {
    each.kind: each for each in (OneClass(), SeveralClasses(), Number())
}
