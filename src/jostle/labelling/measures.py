"""What the audit says of the models of a project: the last one's accuracy, and the curve over rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import and_, func, select

from jostle.labelling import audit
from jostle.labelling.answers import Classes, Stored, number_of
from jostle.labelling.contents import chance
from jostle.labelling.predictions import Predictions
from jostle.labelling.records import Accuracy, Point
from jostle.labelling.schema import examples, queue

if TYPE_CHECKING:
    from jostle.labelling.session import Session


@dataclass(frozen=True)
class Audited:
    """The answers that measure, and how many examples they stand for."""

    labels: Mapping[str, Stored]  # in the order in which they were drawn
    population: int


def audited(session: Session) -> Audited:
    """Audit answers that count: their examples were neither picked, shown in a grid nor wanted by a strategy."""
    labels = session.snapshot().labels
    with session.store.reading() as tx:
        asked = select(queue.c.round, func.max(queue.c.rank).label("rank")).join(examples)
        reached = (
            asked.where(queue.c.purpose == "pick", examples.c.purpose == "pick")
            .group_by(queue.c.round)
            .subquery()
        )
        passed = (
            select(queue.c.key)
            .join(reached, and_(queue.c.round == reached.c.round, queue.c.rank < reached.c.rank))
            .where(queue.c.purpose == "pick")
        )
        drawn = select(examples.c.key).where(
            examples.c.purpose == "audit", examples.c.here, ~examples.c.wanted, examples.c.key.not_in(passed)
        )
        keys = list(tx.execute(drawn).scalars())
        unasked = select(func.count()).where(
            examples.c.here, examples.c.purpose.is_(None), ~examples.c.wanted
        )
        left = int(tx.execute(unasked).scalar_one())
    order = sorted(keys, key=lambda key: chance(session.settings.seed, "audit", key))
    return Audited({key: labels[key] for key in order if key in labels}, len(keys) + left)


def errors(
    kind: str, found: Predictions, labels: Mapping[str, Stored], classes: Classes
) -> NDArray[np.float64]:
    """The error on each audited example that a model knows: 0 or 1, or how far a number is off."""
    known = [
        (found.answer(found.places[key], classes), answer)
        for key, answer in labels.items()
        if key in found.places
    ]
    if kind == "number":
        return np.array([abs(number_of(said) - number_of(answer)) for said, answer in known])
    return np.array([float(said != answer) for said, answer in known])


def accuracy(session: Session, sample: Audited | None = None) -> Accuracy:
    """The last model's accuracy, with an interval that holds however often it is looked at."""
    number = session.store.last_model()
    found = session.predictions()
    if found is None:
        return accuracy_of_errors(session, np.zeros(0), 0, number, 1, None)
    models = [(at, summary) for at, _, summary in session.store.rounds() if summary.get("model")]
    place, (_, summary) = len(models), models[-1]
    sample = sample or audited(session)
    off = errors(session.kind, found, sample.labels, session.book.classes())
    return accuracy_of_errors(session, off, sample.population, number, place, summary.get("scale"))


def accuracy_of_errors(
    session: Session, off: NDArray[np.float64], population: int, number: int, place: int, scale: float | None
) -> Accuracy:
    """Errors as an accuracy with its interval; `place` is which model of the project this is, from 1."""
    level, goal = audit.level(place), session.settings.goal
    population = max(population, len(off))
    sample = 1 - audit.ALPHA, len(off), population, number, goal
    if session.kind == "number":
        top = scale or 1.0
        inside = audit.mean_interval((off / top).clip(0, 1), max(population, 1), level)
        low, high = inside.low * top, inside.high * top
        estimate = float(off.clip(0, top).mean()) if len(off) else None
        reached = goal is not None and len(off) > 0 and high <= goal
        return Accuracy("mean error", estimate, low, high, *sample, reached, scale)
    inside = audit.accuracy_interval(int(off.sum()), len(off), max(population, 1), level)
    estimate = 1 - float(off.mean()) if len(off) else None
    reached = goal is not None and inside.low >= goal
    return Accuracy("accuracy", estimate, inside.low, inside.high, *sample, reached)


def curve(session: Session, sample: Audited | None = None) -> tuple[Point, ...]:
    """Every model of the project, measured by the same audited examples: those that count now."""
    sample, classes = sample or audited(session), session.book.classes()
    points: list[Point] = []
    for number, _, summary in session.store.rounds():
        if not summary.get("model"):
            continue
        found = session.sampled(number)
        off = errors(session.kind, found, sample.labels, classes) if found is not None else np.zeros(0)
        if len(off):
            here = accuracy_of_errors(
                session, off, sample.population, number, len(points) + 1, summary.get("scale")
            )
            assert here.estimate is not None
            points.append(
                Point(number, summary["trained"], here.estimate, here.low, here.high, summary.get("kappa"))
            )
    return tuple(points)


def kappas(session: Session) -> tuple[float, ...]:
    """The likeness of each model to the one before."""
    found = [summary.get("kappa") for _, _, summary in session.store.rounds() if summary.get("model")]
    return tuple(float(value) for value in found if value is not None)


def models(session: Session) -> int:
    """How many models there were so far."""
    return sum(bool(summary.get("model")) for _, _, summary in session.store.rounds())
