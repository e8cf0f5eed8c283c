"""The labelling loop without a page: `ask`, `tell`, `train`, `accuracy`, `advice`.

A project is a folder: `labels.db` (or a PostgreSQL database), the cache of embeddings, and the models of each round.
Opened again, it goes on where it was. The page and notebooks use the same `Session`; it may be called from many
threads, and several processes may open one project.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jostle.labelling import pictures, source
from jostle.labelling.answers import Answer, Answers, stored
from jostle.labelling.classes import ClassBook
from jostle.labelling.contents import Content, Question
from jostle.labelling.index import Index
from jostle.labelling.source import Source
from jostle.labelling.store import Done, Ranked, Store

DATABASE = "labels.db"
LONGEST_PERSON = 100  # characters of a person's name
START = 16  # questions that are drawn at a time before there is a ranking


@dataclass(frozen=True)
class Settings:
    """How a project asks; written down when it is made."""

    strategy: str = "default"
    batch: int = 50  # answers between two models
    audit: float = 0.15  # share of questions whose answers only measure
    goal: float | None = None  # accuracy, or mean error for numbers, at which it is enough
    overlap: float = 0.0  # share of examples that two people answer
    seed: int = 0


class Session:
    """A labelling project at work."""

    def __init__(
        self, project: Path, examples: Source, store: Store, answers: Answers, settings: Settings
    ) -> None:
        self.project, self.source, self.store, self.settings = project, examples, store, settings
        self.kind = answers.kind
        self.book = ClassBook(store)
        self.index = Index(store, examples, settings.seed, settings.overlap)
        self._starting = threading.Lock()

    @classmethod
    def open(
        cls,
        data: str | Path | Source,
        *,
        project: str | Path | None = None,
        answers: Answers | Sequence[str] | None = None,
        db: str | None = None,
        text: str | Sequence[str] | None = None,
        hide: Sequence[str] = (),
        strategy: str = "default",
        batch: int = 50,
        audit: float = 0.15,
        goal: float | None = None,
        overlap: float = 0.0,
        seed: int = 0,
        encoder: str | None = None,
        model: str | None = None,
        fit: str | None = None,
    ) -> Session:
        """Open a project, or begin one: `answers` are a kind of answer, or the names of the classes."""
        examples = source.opened(data, text=text, hide=hide)
        folder = Path(project) if project is not None else beside(data)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(db or str(folder / DATABASE))
        settings = Settings(strategy, batch, audit, goal, overlap, seed)
        spec = agreed(store, answers)
        session = cls(folder, examples, store, spec, settings)
        store.note(overlap=overlap)
        for name in spec.classes:
            session.book.add(name)
        return session

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def ask(self, n: int = 1, person: str = "you") -> list[Question]:
        """The n questions that a person is to have open: asked again before they are answered, they are the same."""
        who = person_name(person)
        keys = self.store.claim(who, n)
        while len(keys) < n and self._filled():
            keys = self.store.claim(who, n)
        names = self.store.names(keys)
        return [Question(key, self.source.kind, names[key]) for key in keys]

    def _filled(self) -> bool:
        """Questions drawn uniformly, for when the ranking has come to its end; False where none are left."""
        with self._starting:
            current = int(self.store.fact("round", 0))
            fresh = self.index.start(START)
            self.store.extend([Ranked(key, "pick") for key in fresh], since=current)
            return bool(fresh)

    def tell(
        self,
        key: str,
        answer: Answer,
        person: str = "you",
        seconds: float | None = None,
        id: str | None = None,
    ) -> Done:
        """An answer, on disk when this returns; sent again with the same id it is there once."""
        value = stored(self.kind, answer, self.book.classes())
        return self.store.record(key, person_name(person), "answer", value, seconds=seconds, id=id)

    def skip(self, key: str, person: str = "you", id: str | None = None) -> Done:
        """Do not ask this person this again."""
        return self.store.record(key, person_name(person), "skip", id=id)

    def correct(self, key: str, answer: Answer, person: str = "you", id: str | None = None) -> Done:
        """An answer that counts over what everybody said before."""
        value = stored(self.kind, answer, self.book.classes())
        return self.store.record(key, person_name(person), "correction", value, id=id)

    def undo(self, person: str = "you") -> Question | None:
        """Take back a person's last answer, correction or skip; the question comes back to them."""
        taken = self.store.undo(person_name(person))
        return None if taken is None else self.question(taken.key)

    def question(self, key: str) -> Question:
        """The question of a key."""
        names = self.store.names([key])
        if key not in names:
            from jostle.labelling.store import UnknownKeyError

            raise UnknownKeyError(key)
        return Question(key, self.source.kind, names[key])

    def content(self, key: str) -> Content:
        """What a question shows, fit for a browser."""
        found = self.index.content(self.question(key).key)
        return pictures.displayed(found) if found.kind == "image" else found


def agreed(store: Store, answers: Answers | Sequence[str] | None) -> Answers:
    """The kind of answers that a project has; another than before is refused."""
    before: Any = store.fact("answers")
    if answers is not None and not isinstance(answers, Answers):
        answers = Answers("one", tuple(answers))
    if before is None:
        if answers is None:
            raise ValueError("a new project needs to know what to answer: classes, or Answers('number')")
        store.note(answers=answers.kind)
        return answers
    if answers is None:
        return (
            Answers("number")
            if before == "number"
            else Answers(before, tuple(ClassBook(store).classes().names.values()))
        )
    if answers.kind != before:
        raise ValueError(
            f"this project has answers of the kind {before!r}, not {answers.kind!r}: name another project"
        )
    return answers


def beside(data: str | Path | Source) -> Path:
    """Where a project lies unless told: beside its data, `photos.labels` for `photos`."""
    if not isinstance(data, str | Path):
        raise ValueError("name the project's folder: data that is not a file has no place beside it")
    path = Path(str(data).rpartition(":")[0] if ".py:" in str(data) else data).expanduser().absolute()
    return path.with_name(f"{path.stem if path.is_file() else path.name}.labels")


def person_name(name: str) -> str:
    """A person's name without blanks around it."""
    clean = " ".join(str(name).split())
    if not clean or len(clean) > LONGEST_PERSON or not clean.isprintable():
        raise ValueError(f"a person has a name of 1 to {LONGEST_PERSON} printable characters; got {name!r}")
    return clean
