"""A labelling project: the folder beside the data, what it remembers, and how it asks and learns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jostle.labelling.answers import AnswerKind, Answers, goal_of
from jostle.labelling.classes import ClassBook
from jostle.labelling.source import Source
from jostle.labelling.store import Store

DATABASE = "labels.db"


@dataclass(frozen=True)
class Settings:
    """How a project asks and learns."""

    strategy: str = "default"
    """What picks the questions."""
    batch: int = 50
    """Answers between two models."""
    audit: float = 0.15
    """The share of questions whose answers only measure."""
    goal: float | None = None
    """The accuracy, or mean error for numbers, at which it is enough; None: there is no such."""
    overlap: float = 0.0
    """The share of examples that two people answer."""
    seed: int = 0
    """What the audit and all draws follow from."""
    encoder: str | None = None
    """What turns pictures and texts into rows; None: the one that is installed."""
    model: str | None = None
    """A network of your own, `file.py:build`."""
    fit: str | None = None
    """What trains it, `file.py:fit`."""
    target: str = "number"
    """What a number is called where it is asked for."""
    known: str | None = None
    """A hidden column whose filled cells are answers already."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch has at least one question; got {self.batch}")
        for name, share in (("audit", self.audit), ("overlap", self.overlap)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is a share from 0 to 1 (0% to 100%); got {share}")


def project_folder(data: str | Path | Source | None, project: str | Path | None, db: str | None) -> Path:
    """Where a project lies; without data it has to be there."""
    if data is None and project is None:
        raise ValueError("name the data, or the folder of a project that is there")
    folder = Path(project) if project is not None else beside(data)
    if data is None and not (folder.is_dir() and (db or (folder / DATABASE).exists())):
        raise ValueError(f"{folder} is not a labelling project: name the data to begin one")
    return folder


@contextmanager
def beginning(folder: Path) -> Iterator[None]:
    """A project that could not be begun leaves no folder behind."""
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def data_facts(
    data: str | Path | Source, text: str | Sequence[str] | None, hide: Sequence[str]
) -> dict[str, Any] | None:
    """What a project writes down of its data; None where that is no file."""
    if not isinstance(data, str | Path):
        return None
    texts = (text,) if isinstance(text, str) else tuple(text or ())
    return {"place": str(Path(data).expanduser().absolute()), "text": texts, "hide": tuple(hide)}


def remembered(store: Store, folder: Path) -> tuple[str, Sequence[str] | None, Sequence[str]]:
    """The data that a project wrote down."""
    found = store.fact("data")
    if found is None:
        raise ValueError(f"{folder} does not know where its data is: name the data")
    return found["place"], found["text"] or None, found["hide"]


def merged_settings(store: Store, given: Mapping[str, Any], kind: AnswerKind) -> Settings:
    """The settings as given, then as the project had them; its seed cannot change, as it draws the audit."""
    before: dict[str, Any] = store.fact("settings") or {}
    new = {name: value for name, value in given.items() if value is not None}
    if "goal" in new:
        new["goal"] = goal_of(new["goal"], kind)
    if before and new.get("seed", before["seed"]) != before["seed"]:
        raise ValueError(f"this project draws its audit with seed {before['seed']}; got {new['seed']}")
    return Settings(**{**before, **new})


def agreed_answers(store: Store, answers: Answers | Sequence[str] | None) -> Answers:
    """The kind of answers that a project has; another than before is refused."""
    before: Any = store.fact("answers")
    if answers is not None and not isinstance(answers, Answers):
        answers = Answers("one", tuple(answers))
    if before is None:
        if answers is None:
            raise ValueError(
                "a new project needs to know what to answer: classes (--classes cat,dog,other; from Python "
                "answers=['cat', 'dog']), or a number (--target NAME; Answers('number'))"
            )
        if answers.kind == "one" and len(answers.classes) == 1:
            raise ValueError(
                f"one class leaves nothing to choose: name another beside {answers.classes[0]!r}, such as 'other'"
            )
        return answers
    if answers is None:
        names = tuple(ClassBook(store).classes().names.values())
        return Answers(before, names)
    if answers.kind != before:
        raise ValueError(
            f"this project has answers of the kind {before!r}, not {answers.kind!r}: name another project"
        )
    return answers


def beside(data: str | Path | Source | None) -> Path:
    """Where a project lies unless told: beside its data, `photos.labels` for `photos`."""
    if not isinstance(data, str | Path):
        raise ValueError("name the project's folder: data that is not a file has no place beside it")
    path = Path(str(data).rpartition(":")[0] if ".py:" in str(data) else data).expanduser().absolute()
    return path.with_name(f"{path.stem if path.is_file() else path.name}.labels")
