"""Accuracy by the audit: of the last model, and of every model so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import and_, func, select

from jostle.labeling import intervals
from jostle.labeling.answers import Classes, StoredAnswer, as_number
from jostle.labeling.contents import draw_uniform
from jostle.labeling.records import Accuracy, Point, Predictions
from jostle.labeling.schema import examples, queue

if TYPE_CHECKING:
    from jostle.labeling.session import Session


@dataclass(frozen=True)
class AuditSample:
    """Audit answers that count, and the number of examples they are a sample of."""

    labels: Mapping[str, StoredAnswer]  # in the order in which they were drawn
    population: int


def audit_sample(session: Session) -> AuditSample:
    """Return the audit answers whose examples were neither picked, shown in a grid nor wanted by a strategy."""
    labels = session.snapshot().labels
    with session.store.read_transaction() as tx:
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
    order = sorted(keys, key=lambda key: draw_uniform(session.settings.seed, "audit", key))
    return AuditSample({key: labels[key] for key in order if key in labels}, len(keys) + left)


def prediction_errors(
    kind: str, found: Predictions, labels: Mapping[str, StoredAnswer], classes: Classes
) -> NDArray[np.float64]:
    """Return the error of each audited example that a model predicts: 0 or 1, or the absolute error of a number."""
    known = [
        (found.answer(found.places[key], classes), answer)
        for key, answer in labels.items()
        if key in found.places
    ]
    if kind == "number":
        return np.array([abs(as_number(said) - as_number(answer)) for said, answer in known])
    return np.array([float(said != answer) for said, answer in known])


def accuracy(session: Session, sample: AuditSample | None = None) -> Accuracy:
    """Return the accuracy of the last model, with an interval that holds however often it is computed."""
    number = session.store.last_model()
    found = session.predictions()
    if found is None:
        return accuracy_of_errors(session, np.zeros(0), 0, number, 1, None)
    models = [(at, summary) for at, _, summary in session.store.rounds() if summary.get("model")]
    place, (_, summary) = len(models), models[-1]
    sample = sample or audit_sample(session)
    off = prediction_errors(session.kind, found, sample.labels, session.book.classes())
    return accuracy_of_errors(session, off, sample.population, number, place, summary.get("scale"))


def accuracy_of_errors(
    session: Session, off: NDArray[np.float64], population: int, number: int, place: int, scale: float | None
) -> Accuracy:
    """Return the accuracy and interval of some errors; `place` counts the models of the project from 1."""
    level, goal = intervals.round_alpha(place), session.settings.goal
    population = max(population, len(off))
    sample = 1 - intervals.ALPHA, len(off), population, number, goal
    if session.kind == "number":
        top = scale or 1.0
        inside = intervals.mean_interval((off / top).clip(0, 1), max(population, 1), level)
        low, high = inside.low * top, inside.high * top
        estimate = float(off.clip(0, top).mean()) if len(off) else None
        reached = goal is not None and len(off) > 0 and high <= goal
        return Accuracy("mean error", estimate, low, high, *sample, reached, scale)
    inside = intervals.accuracy_interval(int(off.sum()), len(off), max(population, 1), level)
    estimate = 1 - float(off.mean()) if len(off) else None
    reached = goal is not None and inside.low >= goal
    return Accuracy("accuracy", estimate, inside.low, inside.high, *sample, reached)


def curve(session: Session, sample: AuditSample | None = None) -> tuple[Point, ...]:
    """Measure every model of the project by the audited examples that count now."""
    sample, classes = sample or audit_sample(session), session.book.classes()
    points: list[Point] = []
    for number, _, summary in session.store.rounds():
        if not summary.get("model"):
            continue
        found = session.audit_predictions(number)
        off = (
            prediction_errors(session.kind, found, sample.labels, classes)
            if found is not None
            else np.zeros(0)
        )
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
    """Return the kappa of each model with the one before."""
    found = [summary.get("kappa") for _, _, summary in session.store.rounds() if summary.get("model")]
    return tuple(float(value) for value in found if value is not None)


def count_models(session: Session) -> int:
    """Return the number of models so far."""
    return sum(bool(summary.get("model")) for _, _, summary in session.store.rounds())
