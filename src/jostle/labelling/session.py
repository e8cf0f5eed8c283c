"""The labelling loop without a page: `ask`, `tell`, `train`, `accuracy`, `advice`.

A project is a folder: `labels.db` (or a PostgreSQL database), the cache of embeddings, and the models of each round.
Opened again, it goes on where it was. The page and notebooks use the same `Session`; it may be called from many
threads, and several processes may open one project. Everything but `train` works without importing torch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jostle.labelling import advice, filling, measures, pictures, review, source, verdicts
from jostle.labelling.answers import Answer, AnswerKind, Answers, current_answer, stored
from jostle.labelling.classes import ClassBook
from jostle.labelling.contents import Content, Question
from jostle.labelling.index import Index
from jostle.labelling.index import Progress as Tell
from jostle.labelling.predictions import Predictions
from jostle.labelling.project import (
    DATABASE,
    Settings,
    agreed_answers,
    beginning,
    data_facts,
    merged_settings,
    project_folder,
    remembered,
)
from jostle.labelling.records import (
    Accuracy,
    Advice,
    Card,
    Disagreement,
    Doubt,
    Entries,
    Point,
    Progress,
    Suggestion,
)
from jostle.labelling.source import Source
from jostle.labelling.store import Done, Store, UnknownKeyError

if TYPE_CHECKING:
    from jostle.labelling.learners import Learner

LONGEST_PERSON = 100  # characters of a person's name


@dataclass(frozen=True)
class Snapshot:
    """What people have said up to an act, and what counts."""

    seq: int
    given: Sequence[verdicts.Given]
    labels: dict[str, Any]  # stored answers by key


class Session:
    """A labelling project at work; `Session.open` opens one.

    Args:
        project: Its folder.
        examples: What is labelled.
        store: The answers.
        kind: "one", "several" or "number".
        settings: What else the project was told.
    """

    def __init__(
        self, project: Path, examples: Source, store: Store, kind: AnswerKind, settings: Settings
    ) -> None:
        self.project, self.source, self.store = project, examples, store
        self.kind, self.settings = kind, settings
        self.book = ClassBook(store)
        self.index = Index(store, examples, settings.seed, settings.overlap)
        self.opening: dict[str, Any] = {}  # what `open` was given, for the background process
        self._filling = threading.Lock()
        self._learner: Learner | None = None
        self._snapshot: tuple[Any, Snapshot] | None = None
        self.sampled = lru_cache(maxsize=256)(
            lambda number: Predictions.load(self.round_folder(number) / "audit")
        )
        self._predicted = lru_cache(maxsize=1)(lambda number: Predictions.load(self.round_folder(number)))

    @classmethod
    def open(
        cls,
        data: str | Path | Source | None = None,
        *,
        project: str | Path | None = None,
        answers: Answers | Sequence[str] | None = None,
        db: str | None = None,
        text: str | Sequence[str] | None = None,
        hide: Sequence[str] = (),
        **settings: Any,
    ) -> Session:
        """Open a project, or begin one. A project that is there knows what is not given, its data included.

        Args:
            data: A folder of images, a table, `file.py:name`, or a `Source`.
            project: Where the project lies; None: beside the data.
            answers: The names of the classes, or an `Answers`.
            db: The address of a database; None: SQLite in the project.
            text: The column or two of a table that are texts.
            hide: Columns that are neither shown nor learnt from.
            settings: Fields of `Settings`; one that is None counts as not given, and a goal may be "95%".
        """
        folder = project_folder(data, project, db)
        with beginning(folder):
            store = Store(db or str(folder / DATABASE))
            if data is None:
                data, text, hide = remembered(store, folder)
            spec = agreed_answers(store, answers)
            chosen = merged_settings(store, settings, spec.kind)
            hide = tuple(dict.fromkeys([*hide, *([chosen.known] if chosen.known else [])]))
            examples = source.open_source(data, text=text, hide=hide)
        session = cls(folder, examples, store, spec.kind, chosen)
        session.opening = {"data": data, "project": folder, "db": db, "text": text, "hide": hide, **settings}
        store.note(
            answers=spec.kind,
            overlap=chosen.overlap,
            settings=asdict(chosen),
            data=data_facts(data, text, hide),
        )
        known = session.book.classes().numbers
        for name in spec.classes:
            if name not in known:  # a class that was renamed or merged is not begun anew
                session.book.add(name)
        return session

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    # asking and telling

    def ask(self, n: int = 1, person: str = "you") -> list[Question]:
        """The n questions that a person is to have open: asked again before they are answered, they are the same.

        Args:
            n: How many.
            person: Whose.
        """
        who = person_name(person)
        keys = self.store.claim(who, n)
        if len(keys) < n and self._filling.acquire(blocking=not keys):  # who has some does not wait for more
            try:
                keys = self.store.claim(who, n)  # somebody may have filled it meanwhile
                if len(keys) < n and filling.fill(self, n):
                    keys = self.store.claim(who, n)
            finally:
                self._filling.release()
        names = self.store.names(keys)
        return [Question(key, self.source.kind, names[key]) for key in keys]

    def tell(
        self,
        key: str,
        answer: Answer,
        person: str = "you",
        seconds: float | None = None,
        id: str | None = None,
    ) -> Done:
        """An answer, on disk when this returns.

        Args:
            key: Of the question.
            answer: A class, several, or a number.
            person: Who says so.
            seconds: How long it took, where that is known.
            id: Sent again with the same, an answer is there once.
        """
        value = stored(self.kind, answer, self.book.classes())
        return self.store.record(key, person_name(person), "answer", value, seconds=seconds, id=id)

    def skip(self, key: str, person: str = "you", id: str | None = None) -> Done:
        """Do not ask a `person` the question of this `key` again; `id` as in `tell`."""
        return self.store.record(key, person_name(person), "skip", id=id)

    def correct(self, key: str, answer: Answer, person: str = "you", id: str | None = None) -> Done:
        """An `answer` to the question of this `key` that counts over what everybody said before; `person` and `id` as
        in `tell`.
        """
        value = stored(self.kind, answer, self.book.classes())
        return self.store.record(key, person_name(person), "correction", value, id=id)

    def undo(self, person: str = "you") -> Question | None:
        """Take back the last answer, correction or skip of a `person`; the question comes back to them."""
        taken = self.store.undo(person_name(person))
        return None if taken is None else self.question(taken.key)

    def release(self, person: str) -> None:
        """Give the open questions of a `person` back: the page was closed."""
        self.store.release(person_name(person))

    def question(self, key: str) -> Question:
        """The question of a `key`."""
        names = self.store.names([key])
        if key not in names:
            raise UnknownKeyError(key)
        return Question(key, self.source.kind, names[key])

    def content(self, key: str) -> Content:
        """What the question of a `key` shows, fit for a browser; GoneError where it is not in the data any more."""
        found = self.index.content(self.question(key).key)
        return pictures.displayed(found) if found.kind == "image" else found

    # classes

    def classes(self) -> list[str]:
        """The names of the classes, in order."""
        return list(self.book.classes().names.values())

    def add_class(self, name: str) -> None:
        """A class more, of this `name`."""
        if self.kind == "number":
            raise ValueError("answers are numbers here: there are no classes to add to")
        self.book.add(name)

    def rename_class(self, old: str, new: str) -> None:
        """Another name, `new`, for the class `old`; all its answers have it at once."""
        self.book.rename(old, new)

    def merge_class(self, old: str, into: str) -> None:
        """The class `old` becomes part of another, `into`, with all its answers."""
        self.book.merge(old, into)

    # learning

    def train(self, tell: Tell | None = None) -> int:
        """One round in this process: read the data, learn from all answers, rank what to ask next. Its number. `tell`
        hears how it goes.
        """
        from jostle.labelling import rounds

        return rounds.run_round(self, tell)

    def want_round(self) -> None:
        """Ask the background for a round before a batch is full; without new answers there is none."""
        self.store.note(**{"round wanted": self.store.last_act()})

    def learner(self) -> Learner:
        """What learns here: a probe on a frozen encoder, or the user's own model."""
        from jostle.labelling.learners import OwnLearner, ProbeLearner

        if self._learner is None:
            chosen = self.settings
            if chosen.model or chosen.fit:
                self._learner = OwnLearner(self.index, chosen.model, chosen.fit, chosen.encoder)
            else:
                self._learner = ProbeLearner(self.index, self.project / "cache", chosen.encoder)
        return self._learner

    def round_folder(self, number: int) -> Path:
        """Where the round of this `number` keeps its model and predictions."""
        return self.project / "rounds" / f"{number:04}"

    def predictions(self) -> Predictions | None:
        """What the last model says of every example; None before there is one."""
        number = self.store.last_model()
        return self._predicted(number) if number else None

    # numbers

    def snapshot(self) -> Snapshot:
        """All answers as they stand; read again only when something was added."""
        classes = self.book.classes()
        mark = (self.store.last_act(), self.store.current_round(), classes)
        if self._snapshot is None or self._snapshot[0] != mark:
            rows = verdicts.given(self.store, self.kind, classes)
            found = Snapshot(mark[0], rows, verdicts.decided(self.kind, rows, classes))
            self._snapshot = mark, found
        return self._snapshot[1]

    def accuracy(self) -> Accuracy:
        """How good the last model is, by the random audit alone."""
        return measures.accuracy(self)

    def curve(self) -> tuple[Point, ...]:
        """Every model so far, measured by the audit as it is now."""
        return measures.curve(self)

    def advice(self) -> Advice:
        """To go on or to stop, and why."""
        return advice.advise(self.accuracy(), self.curve(), measures.kappas(self), filling.left(self))

    def progress(self) -> Progress:
        """How it goes, all of it."""
        return review.progress(self)

    # views

    def suggestion(self, key: str) -> Suggestion | None:
        """What the model would answer to the question of a `key`; None for audit questions, whose answers must not be
        swayed.
        """
        return review.suggestion(self, key)

    def grid(self, name: str, n: int = 60) -> list[Card]:
        """Unanswered examples, at most n, that the model takes for the class `name`, the surest first."""
        return review.grid(self, name, n)

    def doubts(self, n: int = 50) -> list[Doubt]:
        """Answers, at most n, that the model, not having seen them, would not have given; the most doubtful first."""
        return review.doubts(self, n)

    def disagreements(self) -> list[Disagreement]:
        """Examples that people answered differently and nobody has settled."""
        return review.disagreements(self)

    def answers(self, search: str = "", page: int = 1, size: int = 50) -> Entries:
        """All answers, the latest first.

        Args:
            search: A part of names, people or answers; empty: all.
            page: Which page of them, from 1.
            size: How many are on a page.
        """
        return review.entries(self, search, page, size)

    def labels(self) -> dict[str, Answer]:
        """What counts for each answered example, in words."""
        classes = self.book.classes()
        return {
            key: current_answer(self.kind, value, classes) for key, value in self.snapshot().labels.items()
        }


def person_name(name: str) -> str:
    """A person's name without blanks around it."""
    clean = " ".join(str(name).split())
    if not clean or len(clean) > LONGEST_PERSON or not clean.isprintable():
        raise ValueError(f"a person has a name of 1 to {LONGEST_PERSON} printable characters; got {name!r}")
    return clean
