"""Labeling projects: the folder beside the data, what it remembers, its settings, and the list of a user's projects."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout
from sqlalchemy.engine import make_url

from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import AnswerKind, Answers
from jostle.labeling.sources import DEMO
from jostle.labeling.sources.tables import Source
from jostle.labeling.store import Store
from jostle.labeling.store.edits import ClassBook
from jostle.utils.files import write_whole
from jostle.utils.sockets import is_remote
from jostle.utils.user_files import is_own

DATABASE = "labels.db"
ADDRESS = ".server"  # file of a project: where its server is, with the token


@dataclass(frozen=True)
class Settings:
    """Settings of a project."""

    strategy: str = "default"
    """What picks the questions."""
    batch: int = 50
    """Answers between two models."""
    audit: float = 0.15
    """The share of questions whose answers only measure."""
    goal: float | None = None
    """The accuracy, or mean error for numbers, at which it is enough; None: there is no such."""
    find: str | None = None
    """A class to find all examples of; the goal is then the share that is to be found."""
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
    near_copies: bool = False
    """Whether near-copies are one question."""
    known: str | None = None
    """A hidden column whose filled cells are answers already."""
    guide: str | None = None
    """Guidelines in Markdown that stand beside the question; "none": no longer."""
    suggest: str | None = None
    """What makes suggestions: a file of predictions, `file.py:function`, or an address; "none": nothing any more."""
    suggest_model: str | None = None
    """The model at the address."""
    suggest_limit: int | None = None
    """The most calls to the address; None: 1,000."""

    @property
    def accuracy_goal(self) -> float | None:
        """The goal, unless it is the recall of a search."""
        return None if self.find else self.goal

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch has at least one question; got {self.batch}")
        for name, share in (("audit", self.audit), ("overlap", self.overlap)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is a share from 0 to 1 (0% to 100%); got {share}")


def project_folder(data: str | Path | Source | None, project: str | Path | None, db: str | None) -> Path:
    """Return the folder of a project; without data it must exist."""
    if data is None and project is None:
        raise ValueError("name the data, or the folder of a project that is there")
    folder = Path(project) if project is not None else default_folder(data)
    if data is None and not (folder.is_dir() and (db or (folder / DATABASE).exists())):
        raise ValueError(f"{folder} is not a labeling project: name the data to begin one")
    return folder


@contextmanager
def create_folder(folder: Path) -> Iterator[None]:
    """Create the folder of a project; remove it again if the block fails and the folder was new."""
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def data_settings(
    data: str | Path | Source, text: str | Sequence[str] | None, hide: Sequence[str]
) -> dict[str, Any] | None:
    """Return the settings that record where the data is; None where it is no file."""
    if not isinstance(data, str | Path):
        return None
    texts = (text,) if isinstance(text, str) else tuple(text or ())
    place = data if data == DEMO else str(Path(data).expanduser().absolute())
    return {"place": place, "text": texts, "hide": tuple(hide)}


def stored_data(store: Store, folder: Path) -> tuple[str, Sequence[str] | None, Sequence[str]]:
    """Return the data that a project has recorded."""
    found = store.setting("data")
    if found is None:
        raise ValueError(f"{folder} does not know where its data is: name the data")
    return found["place"], found["text"] or None, found["hide"]


def merge_settings(store: Store, given: Mapping[str, Any], kind: AnswerKind) -> Settings:
    """Return the given settings over those of the project; its seed cannot change, because it draws the audit."""
    before: dict[str, Any] = store.setting("settings") or {}
    new = {name: value for name, value in given.items() if value is not None}
    for found in (before, new):  # the first projects kept a goal as it was written
        if found.get("goal") is not None:
            found["goal"] = ANSWER_TYPES[kind].parse_goal(found["goal"])
    if before and new.get("seed", before["seed"]) != before["seed"]:
        raise ValueError(f"this project draws its audit with seed {before['seed']}; got {new['seed']}")
    return Settings(**{**before, **new})


def remembered_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that a project keeps.

    It keeps neither a function that suggests nor an address of another machine: who opens a project of somebody else
    runs nothing by that, and sends the data nowhere.
    """
    once = is_remote(settings.suggest) or is_own(settings.suggest or "")
    return asdict(replace(settings, suggest=None) if once else settings)


def check_find(settings: Settings, kind: AnswerKind, classes: Sequence[str]) -> None:
    """Raise ValueError if the class to find is none of the project's."""
    if settings.find is not None and (not ANSWER_TYPES[kind].has_classes or settings.find not in classes):
        raise ValueError(
            f"the class to find must be one of {', '.join(classes) or 'the classes'}; got {settings.find!r}"
        )


def resolve_answers(
    store: Store, answers: Answers | Sequence[str] | None, add_classes: bool
) -> tuple[AnswerKind, tuple[str, ...]]:
    """Return the kind of answers of a project, and the classes to add to it.

    Raises:
        ValueError: An existing project has another kind, or not all of these classes; `add_classes` adds them.
    """
    before: Any = store.setting("answers")
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
        return answers.kind, answers.classes
    if answers is None:
        return before, ()
    if answers.kind != before:
        raise ValueError(
            f"this project has answers of the kind {before!r}, not {answers.kind!r}: name another project"
        )
    classes = ClassBook(store).classes()
    new = tuple(name for name in answers.classes if name not in classes.numbers)  # earlier names are known
    if new and not add_classes:
        raise ValueError(
            f"this project has the classes {', '.join(classes.names.values())}, and not {', '.join(new)}: leave "
            "--classes out, add classes with --add-classes, or name another project"
        )
    return before, new


def default_folder(data: str | Path | Source | None) -> Path:
    """Return the default folder of a project: beside its data, `photos.labels` for `photos`."""
    if not isinstance(data, str | Path):
        raise ValueError("name the project's folder: data that is not a file has no place beside it")
    path = Path(str(data).rpartition(":")[0] if ".py:" in str(data) else data).expanduser().absolute()
    return path.with_name(f"{path.stem if path.is_file() else path.name}.labels")


def lock_project(project: Path) -> BaseFileLock:
    """Return the lock of a project's server, which lasts until the process ends.

    Raises:
        ValueError: Another server has the project; the message says where it is.
    """
    lock = FileLock(project / ".server.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        place = project / ADDRESS
        address = place.read_text(encoding="utf-8") if place.exists() else "another address"
        raise ValueError(
            f"a server of this project is running: open {address}, or end it before another is started"
        ) from None
    return lock


def write_address(project: Path, address: str) -> None:
    """Write where the server of a project is; the token is in it, so that its owner alone can read it."""
    path = project / ADDRESS
    path.touch(mode=0o600)
    path.write_text(address, encoding="utf-8")


STATE_VARIABLE = "JOSTLE_STATE"


@dataclass(frozen=True)
class ProjectEntry:
    """Project in the list."""

    name: str
    """Its name in addresses."""
    folder: str
    db: str | None = None
    """Address of its database, without a password; None: SQLite in the folder."""
    opened: float = 0.0
    """When it was opened last."""


def state_folder() -> Path:
    """Return the folder of the list: the variable JOSTLE_STATE, or the system's folder for state of programs."""
    from platformdirs import user_state_path

    return Path(os.environ.get(STATE_VARIABLE) or user_state_path("jostle", appauthor=False))


def read_projects() -> list[ProjectEntry]:
    """Return the projects that were opened on this machine, the latest first; a broken list is an empty one."""
    try:
        rows = json.loads((state_folder() / "projects.json").read_text(encoding="utf-8"))
        found = [ProjectEntry(**row) for row in rows]
        return sorted(found, key=lambda each: -each.opened)
    except (OSError, ValueError, TypeError):
        return []


def register_project(folder: Path, db: str | None = None) -> None:
    """Add a project to the list, or note that it was opened; a list that cannot be written stays as it is."""
    place = str(folder.resolve())
    address = make_url(db)._replace(password=None).render_as_string(False) if db and "://" in db else db
    try:
        with lock_list():
            known = read_projects()
            others = [each for each in known if each.folder != place]
            before = next((each.name for each in known if each.folder == place), None)
            name = before or free_name(folder, {each.name for each in others})
            write_list([ProjectEntry(name, place, address, time.time()), *others])
    except OSError:
        return


def forget_project(name: str) -> None:
    """Take a project off the list; its files stay."""
    with lock_list():
        write_list([each for each in read_projects() if each.name != name])


def lock_list() -> FileLock:
    """Return the lock of the list, which several servers may change."""
    state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileLock(state_folder() / ".projects.lock", timeout=10)


def write_list(entries: list[ProjectEntry]) -> None:
    """Write the list."""
    write_whole(state_folder() / "projects.json", json.dumps([asdict(each) for each in entries], indent=1))


def free_name(folder: Path, taken: set[str]) -> str:
    """Return a name for addresses: `photos` for `photos.labels`, with a number if another project has that name."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name.removesuffix(".labels")).strip("-") or "project"
    names = [plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)


def find_project(given: str) -> ProjectEntry:
    """Return a project by its folder, or by its name in the list.

    Raises:
        ValueError: There is no such project.
    """
    known = read_projects()
    folder = Path(given).expanduser()
    if (folder / DATABASE).exists():
        return ProjectEntry(given, str(folder))
    place = str(folder.resolve())
    found = [each for each in known if place == each.folder] or [each for each in known if given == each.name]
    if not found:
        names = ", ".join(each.name for each in known) or "none"
        raise ValueError(f"{given} is not the folder of a labeling project, and no name in the list: {names}")
    return found[0]
