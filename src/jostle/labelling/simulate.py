"""Labelling without people: answers come from a column of the data, with errors and delays if asked for.

`answer_all` plays people at a desk: a `Session`, or anything that asks and is told like one. `study` labels the same
data once with a strategy and once with random picks, seed by seed, and measures every model on examples that neither
ever asks for: what comes out is how many answers each needs to reach an accuracy.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sqlalchemy import update

from jostle.labelling.answers import Answer, AnswerKind, Answers, number_of, stored
from jostle.labelling.coding import cell_number, is_gap
from jostle.labelling.contents import Cell, Question, chance
from jostle.labelling.desk import served
from jostle.labelling.schema import examples
from jostle.labelling.session import Session
from jostle.labelling.source import Source, SourceError
from jostle.plumbing.files import write_whole

Say = Callable[[str], None]
ARMS = ("chosen", "random")  # picks of the strategy, and the yardstick
TEST = 0.3  # share of examples that measure every model and are never asked
SEPARATORS = (";", "|")  # between several classes in one cell


class Desk(Protocol):
    """Where questions are asked and told: a session, or a server that holds one."""

    def ask(self, n: int, person: str) -> Sequence[Question]:
        """The questions a person is to have open."""

    def tell(self, key: str, answer: Answer, person: str, seconds: float | None, id: str | None) -> Any:
        """An answer."""


@dataclass(frozen=True)
class Habits:
    """How simulated people answer."""

    people: int = 1  # who take turns
    error: float = 0.0  # share of answers that are another class; of numbers the relative spread
    delay: float = 0.0  # mean seconds between a question and its answer


STEADY = Habits()  # one person without a mistake


def truth_of(source: Source, column: str, kind: AnswerKind) -> dict[str, Answer]:
    """The true answers by key; places without one are left out."""
    cells, found = source.column(column), {}
    for content in source.contents():
        cell = cells.get(content.name)
        if not is_gap(cell):
            found[content.key] = true_answer(cell, kind)
    if not found:
        raise SourceError(f"the column {column!r} is empty: there is nothing to answer with")
    return found


def true_answer(cell: Cell, kind: AnswerKind) -> Answer:
    """A cell as an answer."""
    if kind == "number":
        value = cell_number(cell)
        if value is None:
            raise SourceError(f"expected a number to answer with; got {cell!r}")
        return value
    if kind == "one":
        return str(cell)
    mark = next((mark for mark in SEPARATORS if mark in str(cell)), SEPARATORS[0])
    return tuple(part.strip() for part in str(cell).split(mark) if part.strip())


def classes_of(truth: Mapping[str, Answer]) -> tuple[str, ...]:
    """The classes that true answers name, in order."""
    named = {name for answer in truth.values() for name in ([answer] if isinstance(answer, str) else answer)}  # type: ignore[union-attr]
    return tuple(sorted(named, key=lambda name: (len(name), name) if name.isdecimal() else (0, name)))


def answer_all(
    desk: Desk,
    truth: Mapping[str, Answer],
    n: int,
    *,
    person: str = "simulated",
    habits: Habits = STEADY,
    seed: int = 0,
) -> int:
    """Answer n questions one after the other; fewer where none are left. How many were answered."""
    draw = random.Random(f"{seed} {person}")
    names = () if isinstance(next(iter(truth.values())), float) else classes_of(truth)
    for count in range(n):
        asked = [question for question in desk.ask(1, person) if question.key in truth]
        if not asked:
            return count
        seconds = draw.expovariate(1 / habits.delay) if habits.delay else 0.0
        time.sleep(seconds)
        answer = mistaken(truth[asked[0].key], names, habits.error, draw)
        desk.tell(asked[0].key, answer, person, seconds, f"{person}-{seed}-{asked[0].key}")
    return n


def mistaken(answer: Answer, names: Sequence[str], error: float, draw: random.Random) -> Answer:
    """The answer, or now and then another."""
    if isinstance(answer, float):
        return answer * (1 + draw.gauss(0, error)) if error else answer
    if draw.random() >= error:
        return answer
    if isinstance(answer, str):
        return draw.choice([name for name in names if name != answer] or [answer])
    flipped = set(answer) ^ {draw.choice(list(names))}
    return tuple(name for name in names if name in flipped)


@dataclass(frozen=True)
class Study:
    """What is simulated: data, its true answers, and how far."""

    data: str
    column: str
    kind: AnswerKind = "one"
    answers: int = 400  # per run
    seeds: int = 5
    opening: Mapping[str, Any] | None = None  # further arguments of `Session.open`
    habits: Habits = STEADY

    def identity(self) -> dict[str, Any]:
        """What decides the numbers of one run; seeds may be added."""
        fields = asdict(self)
        del fields["seeds"]
        return fields


@dataclass(frozen=True)
class Mark:
    """One model of one run: after so many answers, how good on examples that are never asked."""

    arm: str
    seed: int
    answers: int
    value: float  # accuracy, or mean absolute error
    audit: float | None
    low: float
    high: float


def conduct_study(study: Study, out: Path, say: Say = lambda words: None) -> list[Mark]:
    """Run what is missing of a study; runs that are there are read. One killed half way begins its run anew."""
    there = out / "study.json"
    if there.exists() and json.loads(there.read_text(encoding="utf-8")) != json.loads(
        json.dumps(study.identity())
    ):
        raise ValueError(f"{out} holds another simulation: use the same settings, or another folder")
    write_whole(there, json.dumps(study.identity(), indent=1) + "\n")
    marks = []
    for seed in range(study.seeds):
        for arm in ARMS:
            path = out / f"{arm}-{seed}.jsonl"
            if not path.exists():
                say(f"{arm} picks, seed {seed}")
                done = run_arm(study, arm, seed, out / "project")
                write_whole(path, "".join(json.dumps(asdict(mark)) + "\n" for mark in done))
            marks += [Mark(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return marks


def run_arm(study: Study, arm: str, seed: int, project: Path) -> list[Mark]:
    """One labelling from the first question on; embeddings are kept from one run to the next."""
    for path in [*project.glob("labels.db*"), project / "rounds"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    opening = {"hide": (study.column,), **(study.opening or {})}
    if Path(study.data).is_dir() or ".py:" in study.data:
        del opening["hide"]
    settings = {"seed": seed, **({"strategy": "random"} if arm == "random" else {})}
    truth, answers = prepared(study, opening)
    session = Session.open(study.data, project=project, answers=answers, **{**opening, **settings})
    try:
        with served(session) as desk:
            return list(_marks(session, desk, study, arm, seed, truth))
    finally:
        session.close()


def prepared(study: Study, opening: Mapping[str, Any]) -> tuple[dict[str, Answer], Answers]:
    """The truth, and the answers that it allows."""
    from jostle.labelling.source import open_source

    columns = {name: opening[name] for name in ("text", "hide") if name in opening}
    truth = truth_of(open_source(study.data, **columns), study.column, study.kind)
    return truth, Answers(study.kind, () if study.kind == "number" else classes_of(truth))


def _marks(
    session: Session, desk: Desk, study: Study, arm: str, seed: int, truth: Mapping[str, Answer]
) -> Iterator[Mark]:
    session.index.refresh()
    test, count = set_aside(session, seed), 0
    while True:
        session.train()
        if (value := tested(session, truth, test)) is not None:
            here = session.accuracy()
            yield Mark(arm, seed, count, value, here.estimate, here.low, here.high)
        done = _batch(desk, study, seed, truth, min(session.settings.batch, study.answers - count))
        if not done:
            return
        count += done


def _batch(desk: Desk, study: Study, seed: int, truth: Mapping[str, Answer], n: int) -> int:
    """So many answers, the people in turn; how many there were."""
    people = study.habits.people
    parts = [n // people + (place < n % people) for place in range(people)]
    return sum(
        answer_all(desk, truth, part, person=f"person {place + 1}", habits=study.habits, seed=seed)
        for place, part in enumerate(parts)
    )


def set_aside(session: Session, seed: int) -> set[str]:
    """Examples that no run with this seed asks for."""
    with session.store.reading() as tx:
        keys = list(tx.execute(examples.select().with_only_columns(examples.c.key)).scalars())
    test = {key for key in keys if chance(seed, "test", key) < TEST}
    with session.store.writing() as tx:
        for key in test:
            tx.execute(update(examples).where(examples.c.key == key).values(purpose="test"))
    return test


def tested(session: Session, truth: Mapping[str, Answer], test: set[str]) -> float | None:
    """The last model's accuracy on the test examples, or its mean absolute error; None before there is a model."""
    found, classes = session.predictions(), session.book.classes()
    if found is None:
        return None
    pairs = [
        (found.answer(found.places[key], classes), stored(session.kind, truth[key], classes))
        for key in test
        if key in found.places and key in truth
    ]
    if session.kind == "number":
        return float(np.mean([abs(number_of(said) - number_of(true)) for said, true in pairs]))
    return float(np.mean([said == true for said, true in pairs]))
