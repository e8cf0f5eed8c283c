"""The labeling loop without a page: `ask`, `tell`, `train`, `accuracy`, `advice`.

A project is a folder: `labels.db` (or a PostgreSQL database), the cache of embeddings, and the models of each round.
Opened again, it goes on where it was. The page and notebooks use the same `Session`; it may be called from many
threads, and several processes may open one project. Everything but `train` works without importing torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jostle.labeling import audit, review, sources
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import Answer, AnswerKind, Answers, clean_person_name
from jostle.labeling.audit import queue, stopping
from jostle.labeling.project import (
    DATABASE,
    Settings,
    check_find,
    create_folder,
    data_settings,
    merge_settings,
    project_folder,
    remembered_settings,
    resolve_answers,
    stored_data,
)
from jostle.labeling.records import (
    Accuracy,
    Advice,
    Disagreement,
    Doubt,
    Entries,
    Match,
    Point,
    Predictions,
    Progress,
    Suggestion,
)
from jostle.labeling.sources import Index, contents
from jostle.labeling.sources import ProgressCallback as Tell
from jostle.labeling.sources.contents import Content, Question
from jostle.labeling.sources.near_copies import CopyGroups
from jostle.labeling.sources.tables import Source
from jostle.labeling.store import Event, Store, UnknownKeyError, edits
from jostle.labeling.store.edits import ClassBook

if TYPE_CHECKING:
    from jostle.labeling.server.widget import LabelWidget
    from jostle.labeling.training.learners import Learner


PictureForm = Literal["full", "small", "stretched"]
PICTURE_FORMS: dict[PictureForm, Callable[[Content], Content]] = {
    "full": contents.to_browser_format,
    "small": lambda found: contents.to_browser_format(contents.make_thumbnail(found)),
    "stretched": contents.stretch_picture,
}


class Session:
    """Labeling project at work; `Session.open` opens one.

    Args:
        project: Its folder.
        examples: Source of the examples.
        store: Database of the answers.
        kind: "one", "several" or "number".
        settings: All other settings of the project.
    """

    def __init__(
        self, project: Path, examples: Source, store: Store, kind: AnswerKind, settings: Settings
    ) -> None:
        self.project, self.source, self.store = project, examples, store
        self.kind, self.type, self.settings = kind, ANSWER_TYPES[kind], settings
        self.book = ClassBook(store)
        self.copies, share = CopyGroups(self), queue.random_share(self.type, settings.overlap)
        self.index = Index(store, examples, settings.seed, share, self.copies.find_new)
        self.open_args: dict[str, Any] = {}  # what `open` was given, for the background process
        self._fill_lock = threading.Lock()
        self._pictures = contents.PictureCache()
        self._learner: Learner | None = None
        self._snapshot: tuple[Any, queue.Snapshot] | None = None
        self.audit_predictions = lru_cache(maxsize=256)(
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
        add_classes: bool = False,
        **settings: Any,
    ) -> Session:
        """Open a project, or begin one. An existing project knows the arguments that are not given, its data included.

        Args:
            data: A folder of images, a table, `file.py:name`, or a `Source`.
            project: Folder of the project; None: beside the data.
            answers: Names of the classes, or an `Answers`.
            db: Address of a database; None: SQLite in the project.
            text: One or two text columns of a table; "none": its rows are shown and learned from as fields.
            hide: Columns that are neither shown nor learned from.
            add_classes: Add the classes of `answers` that an existing project does not have.
            settings: Fields of `Settings`; None counts as not given, and a goal may be "95%".
        """
        folder = project_folder(data, project, db)
        with create_folder(folder):
            store = Store(db or str(folder / DATABASE))
            if data is None:
                data, text, hide = stored_data(store, folder)
            begun = store.setting("answers") is not None
            kind, new = resolve_answers(store, answers, add_classes)
            chosen = merge_settings(store, settings, kind)
            check_find(chosen, kind, [*ClassBook(store).classes().numbers, *new])
            hide = tuple(dict.fromkeys([*hide, *([chosen.known] if chosen.known else [])]))
            examples = sources.open_source(data, text=text, hide=hide, ask_for_texts=not begun)
        session = cls(folder, examples, store, kind, chosen)
        session.open_args = {
            "data": data,
            "project": folder,
            "db": db,
            "text": text,
            "hide": hide,
            **settings,
        }
        store.save_settings(
            answers=kind,
            overlap=chosen.overlap,
            settings=remembered_settings(chosen),
            data=data_settings(data, text, hide),
        )
        for name in new:
            session.book.add(name)
        return session

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    # asking and telling

    def ask(self, n: int = 1, person: str = "you") -> list[Question]:
        """Return the n questions that a person is to have open; until they are answered, the same ones.

        Args:
            n: Number of questions.
            person: Name of the person.
        """
        who = clean_person_name(person)
        keys = self.store.claim(who, n)
        if len(keys) < n and self._fill_lock.acquire(blocking=not keys):  # who has some does not wait
            try:
                keys = self.store.claim(who, n)  # somebody may have filled it meanwhile
                if len(keys) < n and queue.fill_queue(self, n):
                    keys = self.store.claim(who, n)
            finally:
                self._fill_lock.release()
        if len(keys) < n:
            keys += edits.claim_unsure(self.store, who, keys, n - len(keys))
        names = self.store.names(keys)
        return [Question(key, self.source.kind, names[key]) for key in keys]

    def tell(
        self,
        key: str,
        answer: Answer,
        person: str = "you",
        seconds: float | None = None,
        id: str | None = None,
    ) -> Event:
        """Record an answer; it is on disk when this returns.

        Args:
            key: Key of the question.
            answer: A class, several classes, or a number.
            person: Name of the person.
            seconds: Time that the answer took, if known.
            id: An answer sent again with the same id is recorded once.
        """
        value = self.type.encode(answer, self.book.classes())
        return self.store.record(key, clean_person_name(person), "answer", value, seconds=seconds, id=id)

    def skip(self, key: str, person: str = "you", id: str | None = None) -> Event:
        """Never ask a `person` the question of this `key` again; `id` as in `tell`."""
        return self.store.record(key, clean_person_name(person), "skip", id=id)

    def remark(self, key: str, kind: edits.RemarkKind, text: str | None = "", person: str = "you") -> None:
        """Record a remark of a `person`; its `kind` is "unsure", "note" or "flag", and a `text` of None withdraws it.

        Whoever is unsure skips the `key`. Others are asked, and this person again when nothing else is left.
        """
        edits.record_remark(self.store, key, clean_person_name(person), kind, text)
        if kind == "unsure" and text is not None:
            self.skip(key, person)

    def correct(self, key: str, answer: Answer, person: str = "you", id: str | None = None) -> Event:
        """Record an `answer` to the question of a `key` that replaces everybody's; `person` and `id` as in `tell`."""
        value = self.type.encode(answer, self.book.classes())
        return self.store.record(key, clean_person_name(person), "correction", value, id=id)

    def undo(self, person: str = "you") -> Question | None:
        """Undo the last answer, correction or skip of a `person`; the question comes back to them."""
        undone = self.store.undo(clean_person_name(person))
        if undone is None:
            return None
        if undone.act == "skip":
            edits.record_remark(self.store, undone.key, undone.person, "unsure", None)
        answer = None if undone.value is None else self.type.decode(undone.value, self.book.classes())
        return replace(self.question(undone.key), answer=answer)

    def release(self, person: str) -> None:
        """Release the open questions of a `person`, such as when the page is closed."""
        self.store.release(clean_person_name(person))

    def question(self, key: str) -> Question:
        """Return the question of a `key`."""
        names = self.store.names([key])
        if key not in names:
            raise UnknownKeyError(key)
        return Question(key, self.source.kind, names[key])

    def content(self, key: str, form: PictureForm = "full") -> Content:
        """Return the content of a `key` in a format for browsers; raise GoneError if it is no longer in the data.

        Args:
            key: Key of the example.
            form: Of a picture: "full", "small" for a list, or "stretched" over the full range of brightness.
        """
        found = self.index.content(self.question(key).key)
        if found.kind != "image":
            return found
        return self._pictures.get(f"{form} {key}", lambda: PICTURE_FORMS[form](found))

    def widget(self, person: str = "you", height: str = "40rem") -> LabelWidget:
        """Return the question view for a notebook: a `person` answers in a cell, in a view of this `height`."""
        from jostle.labeling.server.widget import LabelWidget

        return LabelWidget(self, person, height)

    # classes

    def classes(self) -> list[str]:
        """Return the names of the classes, in order."""
        return list(self.book.classes().names.values())

    def add_class(self, name: str) -> None:
        """Add a class of this `name`."""
        if not self.type.has_classes:
            raise ValueError("answers are numbers here: there are no classes to add to")
        self.book.add(name)

    def rename_class(self, old: str, new: str) -> None:
        """Rename the class `old` to `new`, in all its answers at once."""
        self.book.rename(old, new)

    def merge_class(self, old: str, into: str) -> None:
        """Merge the class `old` into another, `into`, with all its answers."""
        self.book.merge(old, into)

    # learning

    def train(self, tell: Tell | None = None) -> int:
        """Run one round in this process: read the data, train, rank what to ask next. Return its number.

        Args:
            tell: Called with messages about the progress; None: nobody is told.
        """
        from jostle.labeling.training import rounds

        return rounds.run_round(self, tell)

    def request_round(self) -> None:
        """Ask the background process for a round before a batch is full; without new answers there is none."""
        self.store.save_settings(**{"round wanted": self.store.last_event()})

    def learner(self) -> Learner:
        """Return the learner: a probe on a frozen encoder, or the user's own model."""
        from jostle.labeling.training.learners import CustomLearner, ProbeLearner

        if self._learner is None:
            chosen = self.settings
            if chosen.model or chosen.fit:
                self._learner = CustomLearner(self.index, chosen.model, chosen.fit, chosen.encoder)
            else:
                self._learner = ProbeLearner(self.index, self.project / "cache", chosen.encoder)
        return self._learner

    @property
    def map_folder(self) -> Path:
        """Folder of the map of all examples."""
        return self.project / "cache"

    def round_folder(self, number: int) -> Path:
        """Return the folder of the model and predictions of the round of this `number`."""
        return self.project / "rounds" / f"{number:04}"

    def predictions(self) -> Predictions | None:
        """Return the last model's predictions for every example; None before there is one."""
        number = self.store.last_model()
        return self._predicted(number) if number else None

    # numbers

    def snapshot(self) -> queue.Snapshot:
        """Return all current answers; read again only when something was added."""
        classes = self.book.classes()
        mark = (self.store.state(), self.store.current_round(), classes)
        if self._snapshot is None or self._snapshot[0] != mark:
            self._snapshot = mark, queue.read_snapshot(self.store, self.type, classes)
        return self._snapshot[1]

    def accuracy(self) -> Accuracy:
        """Return the accuracy of the last model, by the random audit alone."""
        return audit.accuracy(self)

    def curve(self) -> tuple[Point, ...]:
        """Return every model so far, measured by the audit as it is now."""
        return audit.curve(self)

    def advice(self) -> Advice:
        """Return advice to go on or to stop, with reasons."""
        if (search := stopping.recall(self)) is not None:
            return stopping.advise_search(search, queue.count_unanswered(self))
        found = self.accuracy()
        left, forecast = queue.count_unanswered(self), audit.proof(self, found)
        return stopping.advise(found, self.curve(), audit.kappas(self), left, forecast)

    def prove(self, questions: int | None = None) -> int:
        """Ask random questions next, which prove the goal sooner; return their number.

        Args:
            questions: Number of questions. None: as many as the forecast says.
        """
        return queue.begin(self, questions)

    def progress(self) -> Progress:
        """Return everything about the progress."""
        return review.progress(self)

    # views

    def suggestion(self, key: str) -> Suggestion | None:
        """Return the model's answer to the question of a `key`; None for audit questions and for as many others."""
        return review.suggestion(self, key)

    def grid(self, name: str, n: int = 60, order: review.GridOrder = "surest") -> list[Match]:
        """Return at most n unanswered examples that the model takes for the class `name`, in this `order`."""
        return review.grid(self, name, n, order)

    def doubts(self, n: int = 50) -> list[Doubt]:
        """Return at most n answers that the model, out of sample, would not have given; the most doubtful first."""
        return review.doubts(self, n)

    def disagreements(self) -> list[Disagreement]:
        """Return examples that people answered differently and nobody has corrected."""
        return review.disagreements(self)

    def answers(self, search: str = "", page: int = 1, size: int = 50) -> Entries:
        """Return a page of all answers, the latest first.

        Args:
            search: Part of a name, person, answer or text; empty: all.
            page: Number of the page, from 1.
            size: Answers on a page.
        """
        return review.entries(self, search, page, size)

    def labels(self) -> dict[str, Answer]:
        """Return the answer that counts for each answered example, in words."""
        classes = self.book.classes()
        return {key: self.type.decode(value, classes) for key, value in self.snapshot().labels.items()}
