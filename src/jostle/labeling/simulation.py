"""Labeling without people: answers come from a column of the data, with errors and delays if asked for.

`answer_all` answers the questions of a `Session`. `run_study` labels the same data with a strategy and with random
picks, seed by seed, and tests every model on examples that neither asks for. The result is how many answers each needs
to reach an accuracy.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import update

from jostle.datasets.table_files import is_missing, number
from jostle.labeling.answers import Answer, AnswerKind, Answers
from jostle.labeling.session import Session
from jostle.labeling.sources import open_source
from jostle.labeling.sources.contents import Cell, SourceError, draw_uniform
from jostle.labeling.sources.tables import Source
from jostle.labeling.store.schema import examples
from jostle.utils.files import write_whole

ARMS = ("chosen", "random")  # picks of the strategy, and the yardstick
TARGET_SHARES = (0.5, 0.75, 0.9, 1.0)  # of the way that random picks go from their first model to their last


@dataclass(frozen=True)
class Habits:
    """Behavior of simulated people."""

    people: int = 1  # who take turns
    error: float = 0.0  # share of answers that are another class; of numbers the relative spread
    delay: float = 0.0  # mean seconds between a question and its answer


NO_ERRORS = Habits()  # one person without a mistake


def read_truth(source: Source, column: str, kind: AnswerKind) -> dict[str, Answer]:
    """Return the true answers by key; places without one are left out."""
    cells = source.column(column)
    held = ((content.key, cells.get(content.name)) for content in source.contents())
    found = {key: parse_truth(cell, kind) for key, cell in held if not is_missing(cell)}
    if not found:
        raise SourceError(f"the column {column!r} is empty: there is nothing to answer with")
    return found


def parse_truth(cell: Cell, kind: AnswerKind) -> Answer:
    """Return a cell as an answer."""
    if kind == "one":
        return str(cell)
    if kind == "several":
        mark = ";" if ";" in str(cell) else "|"
        return tuple(part.strip() for part in str(cell).split(mark) if part.strip())
    if (value := number(cell)) is None:
        raise SourceError(f"expected a number to answer with; got {cell!r}")
    return value


def truth_classes(truth: Mapping[str, Answer]) -> tuple[str, ...]:
    """Return the classes of the true answers, in order."""
    named = {name for answer in truth.values() for name in ([answer] if isinstance(answer, str) else answer)}  # type: ignore[union-attr]
    return tuple(sorted(named, key=lambda name: (len(name), name) if name.isdecimal() else (0, name)))


def answer_all(
    session: Session,
    truth: Mapping[str, Answer],
    n: int,
    *,
    person: str = "simulated",
    habits: Habits = NO_ERRORS,
    seed: int = 0,
) -> int:
    """Answer n questions, or fewer if none are left; return the number of answers."""
    draw = random.Random(f"{seed} {person}")
    names = () if isinstance(next(iter(truth.values())), float) else truth_classes(truth)
    for count in range(n):
        asked = [question for question in session.ask(1, person) if question.key in truth]
        if not asked:
            return count
        seconds = draw.expovariate(1 / habits.delay) if habits.delay else 0.0
        time.sleep(seconds)
        answer = add_error(truth[asked[0].key], names, habits.error, draw)
        session.tell(asked[0].key, answer, person, seconds, f"{person}-{seed}-{asked[0].key}")
    return n


def add_error(answer: Answer, names: Sequence[str], error: float, draw: random.Random) -> Answer:
    """Return the answer, or with some probability a wrong one."""
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
    """Study to simulate: data, its true answers, and their number."""

    data: str
    column: str
    kind: AnswerKind = "one"
    answers: int = 400  # per run
    seeds: int = 5
    opening: Mapping[str, Any] | None = None  # further arguments of `Session.open`
    habits: Habits = NO_ERRORS

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the numbers of one run; seeds may be added."""
        return {name: value for name, value in asdict(self).items() if name != "seeds"}


@dataclass(frozen=True)
class Measurement:
    """Test of one model of one run."""

    arm: str
    seed: int
    answers: int
    value: float  # accuracy, or mean absolute error
    audit: float | None
    low: float
    high: float


def run_study(
    study: Study, out: Path, say: Callable[[str], object] = lambda words: None
) -> list[Measurement]:
    """Run what is missing of a study; completed runs are read, a killed one starts again."""
    there, identity = out / "study.json", json.dumps(study.identity(), indent=1)
    if there.exists() and json.loads(there.read_text(encoding="utf-8")) != json.loads(identity):
        raise ValueError(f"{out} holds another simulation: use the same settings, or another folder")
    write_whole(there, identity + "\n")
    marks = []
    for seed in range(study.seeds):
        for arm in ARMS:
            path = out / f"{arm}-{seed}.jsonl"
            if not path.exists():
                say(f"{arm} picks, seed {seed}")
                done = run_arm(study, arm, seed, out / "project")
                write_whole(path, "".join(json.dumps(asdict(mark)) + "\n" for mark in done))
            lines = path.read_text(encoding="utf-8").splitlines()
            marks += [Measurement(**json.loads(line)) for line in lines]
    return marks


def run_arm(study: Study, arm: str, seed: int, project: Path) -> list[Measurement]:
    """Run one labeling from the first question on; embeddings are kept from one run to the next."""
    for path in [*project.glob("labels.db*"), project / "rounds"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    opening = {"hide": (study.column,), **(study.opening or {})}
    if Path(study.data).is_dir() or ".py:" in study.data:
        del opening["hide"]
    columns = {name: opening[name] for name in ("text", "hide") if name in opening}
    truth = read_truth(open_source(study.data, **columns), study.column, study.kind)
    answers = Answers(study.kind, () if study.kind == "number" else truth_classes(truth))
    opening |= {"seed": seed, "strategy": "random"} if arm == "random" else {"seed": seed}
    session = Session.open(study.data, project=project, answers=answers, **opening)
    try:
        return list(_measure_rounds(session, study, arm, seed, truth))
    finally:
        session.close()


def _measure_rounds(
    session: Session, study: Study, arm: str, seed: int, truth: Mapping[str, Answer]
) -> Iterator[Measurement]:
    """Yield a measurement after each batch of answers, in which the people take turns."""
    session.index.refresh()
    test, count, people = hold_out_test(session, seed), 0, study.habits.people
    while True:
        session.train()
        if (value := test_model(session, truth, test)) is not None:
            here = session.accuracy()
            yield Measurement(arm, seed, count, value, here.estimate, here.low, here.high)
        n, done = min(session.settings.batch, study.answers - count), 0
        for place in range(people):
            part = n // people + (place < n % people)
            name = f"person {place + 1}"
            done += answer_all(session, truth, part, person=name, habits=study.habits, seed=seed)
        if not done:
            return
        count += done


def hold_out_test(session: Session, seed: int) -> set[str]:
    """Hold out the test examples of a seed: they are never asked."""
    test = {key for key in session.store.find_keys() if draw_uniform(seed, "test", key) < 0.3}  # never asked
    with session.store.write_transaction() as tx:
        tx.execute(update(examples).where(examples.c.key.in_(test)).values(purpose="test"))
    return test


def test_model(session: Session, truth: Mapping[str, Answer], test: set[str]) -> float | None:
    """Return the last model's accuracy or mean absolute error on the test examples; None before there is a model."""
    found, classes, type = session.predictions(), session.book.classes(), session.type
    if found is None:
        return None
    keys = [key for key in test if key in found.places and key in truth]
    errors = [
        type.error(found.answer(found.places[key], classes), type.encode(truth[key], classes)) for key in keys
    ]
    error = float(np.mean(errors))
    return 1 - error if session.type.has_classes else error


@dataclass(frozen=True)
class Need:
    """Answers needed to reach a value, by arm and seed; None for a seed that did not reach it."""

    value: float
    by_arm: Mapping[str, Sequence[float | None]]

    def median(self, arm: str) -> float | None:
        """Return the median over seeds; None where most did not reach the value."""
        middle = statistics.median(float("inf") if n is None else n for n in self.by_arm[arm])
        return middle if np.isfinite(middle) else None

    def saved_share(self) -> float | None:
        """Return the share of answers that picks save against random ones; None where either missed the value."""
        chosen, random = (self.median(arm) for arm in ARMS)
        return None if chosen is None or not random else 1 - chosen / random


def answers_needed(
    marks: Sequence[Measurement], values: Sequence[float], smaller_is_better: bool
) -> list[Need]:
    """Return the answers at which each run first reached each value, interpolated between two models."""
    sign = -1 if smaller_is_better else 1
    seeds = sorted({mark.seed for mark in marks})
    runs = {arm: [[m for m in marks if (m.arm, m.seed) == (arm, seed)] for seed in seeds] for arm in ARMS}
    return [
        Need(value, {arm: [_answers_to_reach(run, value, sign) for run in runs[arm]] for arm in ARMS})
        for value in values
    ]


def _answers_to_reach(run: Sequence[Measurement], value: float, sign: int) -> float | None:
    for place, mark in enumerate(run):
        if sign * mark.value >= sign * value:
            if place == 0:
                return float(mark.answers)
            before = run[place - 1]
            share = (value - before.value) / (mark.value - before.value)
            return before.answers + share * (mark.answers - before.answers)
    return None


def target_values(marks: Sequence[Measurement]) -> list[float]:
    """Return values to count answers for: on the way of random picks, up to their mean at the end."""
    seeds = sorted({mark.seed for mark in marks})
    runs = [[mark.value for mark in marks if (mark.arm, mark.seed) == ("random", seed)] for seed in seeds]
    first, last = float(np.mean([run[0] for run in runs])), float(np.mean([run[-1] for run in runs]))
    exact = [first + way * (last - first) for way in TARGET_SHARES]
    step = 10.0 ** (math.floor(math.log10(max(abs(last), 1e-12))) - 2)  # three digits
    nearer = math.floor if last > first else math.ceil  # never beyond what was reached
    return [float(f"{nearer(round(value / step, 6)) * step:.3g}") for value in exact]
