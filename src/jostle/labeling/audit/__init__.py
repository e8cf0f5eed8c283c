"""Accuracy by the audit: of the last model, of every model so far, and on new data.

The mathematics is in `jostle.statistics`; this module reads its arrays from the project.

The audit is blind: nothing that a page shows says which questions measure. A suggestion can sway an answer, so audit
questions have none. An equal share of picks, drawn by their keys, has none either, and during a proof no question has
one. Figures of the audit change a few answers at a time, because a count that grows with an answer would say what that
answer was for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, and_, func, or_, select

from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import Classes, StoredAnswer, as_class
from jostle.labeling.records import Accuracy, NewData, Point, Predictions, Proof
from jostle.labeling.sources.contents import draw_uniform
from jostle.labeling.store.schema import examples, looks
from jostle.labeling.store.schema import queue as ranking
from jostle.statistics import (
    ALPHA,
    AuditSample,
    ClassQuality,
    Interval,
    answers_to_prove,
    betting_interval,
    class_qualities,
    decay,
    estimate_mean,
    estimate_new_data_error,
    new_data_interval,
    spend_alpha,
)

if TYPE_CHECKING:
    from jostle.labeling.session import Session

Array = NDArray[np.float64]

AUDIT_PREDICTIONS = 2000  # examples, the next of the audit, whose predictions each round keeps for good
UPPER_SHARE = 0.95  # of a model's alpha: for the bound that proves
FORECAST_LIMIT = 600  # further random answers that a forecast considers
PROOF_SHARE = 0.9  # of the questions during a proof are random; picks among them keep the audit blind
REVEAL_STEP = 5  # answers between two changes of the audit's figures
AUDIT_FIGURES = (
    "accuracy", "new_data", "recall", "proof", "curve", "advice", "classes", "confusions", "noise", "savings",
    "suggested",
)  # fmt: skip


@dataclass(frozen=True)
class ProjectAudit:
    """Audit answers that count, and the examples that were not asked: together the population."""

    labels: Mapping[str, StoredAnswer]  # in the order in which they were drawn
    rest: Collection[str]  # unasked, or drawn and without an answer

    @property
    def keys(self) -> list[str]:
        """Examples that the audit is a sample of, those with an answer first."""
        return [*self.labels, *self.rest]


@dataclass(frozen=True, eq=False)
class Measured:
    """Errors of a model on the audit, and what it expects of the whole population."""

    errors: Array  # (t,) between 0 and 1, in draw order
    expected: Array  # (N,) those of the draws first
    unit: float = 1.0  # by which errors of numbers were divided

    def interval(self, alpha: float, upper_share: float = UPPER_SHARE) -> Interval:
        """Return bounds on the mean error of the population."""
        if not len(self.expected):
            return Interval(0.0, 1.0)
        return betting_interval(self.errors, self.expected, alpha=alpha, upper_share=upper_share)


def audit_sample(session: Session) -> ProjectAudit:
    """Return the audit without the examples that were picked, shown in a grid or wanted by a strategy."""
    labels = session.snapshot().labels
    drawn = and_(examples.c.purpose == "audit", ~_has_left())
    unasked = and_(examples.c.purpose.is_(None), ~examples.c.wanted)
    keys = session.store.rows(
        select(examples.c.key, examples.c.purpose).where(examples.c.here, drawn | unasked)
    )
    known = [key for key, purpose in keys if purpose is not None and key in labels]
    known.sort(key=lambda key: draw_uniform(session.settings.seed, "audit", key))
    return ProjectAudit({key: labels[key] for key in known}, {key for key, _ in keys}.difference(known))


def left_audit(session: Session) -> frozenset[str]:
    """Return the keys of audited examples that measure no more: their answers train, as those of picks."""
    return frozenset(session.store.find_keys(examples.c.purpose == "audit", _has_left()))


def _has_left() -> ColumnElement[bool]:
    """Whether an example was shown in a grid, or a strategy ranked it before a pick that was asked."""
    asked = select(ranking.c.round, func.max(ranking.c.rank).label("rank")).join(examples)
    asked = asked.where(ranking.c.purpose == "pick", examples.c.purpose == "pick")
    reached = asked.group_by(ranking.c.round).subquery()
    before = and_(ranking.c.round == reached.c.round, ranking.c.rank < reached.c.rank)
    passed = select(ranking.c.key).join(reached, before).where(ranking.c.purpose == "pick")
    return or_(examples.c.wanted, examples.c.key.in_(passed))


def prediction_errors(found: Predictions, labels: Mapping[str, StoredAnswer], classes: Classes) -> Array:
    """Return the error of each labeled example that a model predicts: 0 or 1, or the absolute error of a number."""
    error, known = ANSWER_TYPES[found.kind].error, [key for key in labels if key in found.places]
    return np.array([error(found.answer(found.places[key], classes), labels[key]) for key in known])


def measure(
    session: Session,
    sample: ProjectAudit,
    found: Predictions,
    scale: float | None = None,
    *,
    whole: bool = False,
) -> Measured:
    """Compare predictions with the audit.

    Examples that the project's model does not know, such as new files, are not part of its population. They are if
    `whole`, or where only the predictions for the first of the audit were kept. Such examples get chances as those of
    the others are spread: any chances keep an interval valid.
    """
    off = prediction_errors(found, sample.labels, session.book.classes())
    unit = 1.0 if session.type.has_classes else scale or 1.0
    known = [found.places[key] for key in sample.keys if key in found.places]
    expected = found.expected_errors[known]
    missing = len(sample.rest) - (len(known) - len(off))
    if missing and len(known) and (whole or len(found.keys) == AUDIT_PREDICTIONS):
        spread = np.quantile(expected, (np.arange(missing) + 0.5) / missing)
        expected = np.concatenate([expected, spread])
    return Measured((off / unit).clip(0, 1), expected, unit)


def model_shares(session: Session) -> dict[int, float]:
    """Return the share of alpha of each round with a model; those of release 0.2 count as other than candidates."""
    shares: dict[int, float] = {}
    candidates: list[bool] = []
    for number, summary in model_rounds(session):
        candidates.append(bool(summary.get("candidate")))
        stored = summary.get("alpha")
        shares[number] = float(stored) if stored else next_share(session, candidates, len(candidates))
    return shares


def model_rounds(session: Session) -> list[tuple[int, dict[str, Any]]]:
    """Return number and summary of every round that had a model."""
    return [(number, summary) for number, _, summary in session.store.rounds() if summary.get("model")]


def next_share(session: Session, candidates: Sequence[bool], rank: int) -> float:
    """Return the share of alpha for the last of some models, the rank-th claim on this audit.

    Without a goal all models count alike. With one, 90 % of alpha is for candidates: models that expect to meet it.
    """
    return decay(rank) if session.settings.accuracy_goal is None else spend_alpha(candidates)[-1]


def spend_share(session: Session, candidate: bool) -> float:
    """Return the share of alpha for a new model; all shares of a project sum to less than alpha."""
    spent = [*model_shares(session).values(), *session.store.column(select(looks.c.alpha))]
    flags = [bool(summary.get("candidate")) for _, summary in model_rounds(session)]
    flags += [True] * (len(spent) - len(flags))
    share = next_share(session, [*flags, candidate], len(flags) + 1)
    return min(share, max(ALPHA - float(sum(spent)), 0.0) / 2)  # a goal that came late does not spend more


def accuracy(session: Session, sample: ProjectAudit | None = None) -> Accuracy:
    """Return the accuracy of the last model, with an interval that holds however often it is computed."""
    number, found = session.store.last_model(), session.predictions()
    if found is None:
        return describe_measured(session, Measured(np.zeros(0), np.zeros(0)), number, ALPHA, None)
    scale = dict(model_rounds(session))[number].get("scale")
    measured = measure(session, sample or audit_sample(session), found, scale)
    return describe_measured(session, measured, number, model_shares(session)[number], scale)


def describe_measured(
    session: Session, measured: Measured, number: int, alpha: float, scale: float | None
) -> Accuracy:
    """Return the accuracy and interval of some errors."""
    goal, count, numbers = session.settings.accuracy_goal, len(measured.errors), not session.type.has_classes
    error = estimate_mean(measured.errors, measured.expected) if count else 0.0
    found = describe_error(session, error, measured.interval(alpha), measured.unit)
    reached = goal is not None and count > 0 and (found.high <= goal if numbers else found.low >= goal)
    return Accuracy(
        "mean error" if numbers else "accuracy", found.estimate if count else None, found.low, found.high,
        1 - ALPHA, count, len(measured.expected), number, goal, reached, scale,
    )  # fmt: skip


def describe_error(session: Session, error: float, inside: Interval, unit: float) -> NewData:
    """Return an error with its interval as an accuracy, or as a mean error of numbers in their `unit`."""
    error = min(max(error, inside.low), inside.high)
    if not session.type.has_classes:
        return NewData(error * unit, inside.low * unit, inside.high * unit)
    right = inside.complement()
    return NewData(1 - error, right.low, right.high)


def curve(session: Session, sample: ProjectAudit | None = None) -> tuple[Point, ...]:
    """Measure every model of the project by the audited examples that count now."""
    sample, shares = sample or audit_sample(session), model_shares(session)
    points: list[Point] = []
    for number, summary in model_rounds(session):
        found, scale = session.audit_predictions(number), summary.get("scale")
        if found is None or not len((measured := measure(session, sample, found, scale)).errors):
            continue
        here = describe_measured(session, measured, number, shares[number], scale)
        bounds = here.estimate or 0.0, here.low, here.high
        points.append(Point(number, summary["trained"], *bounds, summary.get("kappa")))
    return tuple(points)


def new_data(session: Session, sample: ProjectAudit | None = None) -> NewData | None:
    """Return the accuracy on new data like this: held-out errors on the answered part, the audit on the rest.

    None where there is no audited answer, or where the model has no held-out predictions.
    """
    found = session.predictions()
    if found is None or not found.out_of_sample:
        return None
    sample = sample or audit_sample(session)
    measured = measure(session, sample, found, model_rounds(session)[-1][1].get("scale"))
    if not len(measured.errors):
        return None
    others = {key: value for key, value in session.snapshot().labels.items() if key not in sample.labels}
    off = prediction_errors(found, others, session.book.classes())
    known, left = (off / measured.unit).clip(0, 1), len(measured.expected)
    rest = measured.interval(ALPHA / 2, 0.5)
    inside = new_data_interval(known, rest, left)
    error = estimate_new_data_error(known, estimate_mean(measured.errors, measured.expected), left)
    return describe_error(session, error, inside, measured.unit)


def proof(session: Session, found: Accuracy, sample: ProjectAudit | None = None) -> Proof | None:
    """Forecast how many more random answers prove the goal; None without a goal, a model, or once it is proven."""
    predictions, goal = session.predictions(), session.settings.accuracy_goal
    if predictions is None or goal is None or found.reached:
        return None
    measured = measure(session, sample or audit_sample(session), predictions, found.scale)
    largest = session.type.largest_error(goal, measured.unit)
    if not 0 < largest < 1:
        return None
    alpha, audit_only = UPPER_SHARE * model_shares(session)[found.round], session.settings.audit == 1
    picks = 0.0 if audit_only else 1 / PROOF_SHARE - 1
    median = answers_to_prove(
        measured.errors, measured.expected, largest, alpha=alpha, limit=FORECAST_LIMIT, picks_per_answer=picks
    ).median
    return Proof(median, FORECAST_LIMIT, (median or 0) if audit_only else proof_questions(session))


def proof_questions(session: Session) -> int:
    """Return how many random questions of a proof wait to be asked; 0 where none is under way."""
    started = session.store.setting("proof") or {}
    if started.get("round") != session.store.current_round():
        return 0
    return max(int(started["until"]) - session.store.count(examples.c.purpose == "audit"), 0)


def by_class(
    session: Session, found: Predictions, sample: ProjectAudit, alpha: float = ALPHA
) -> dict[str, ClassQuality]:
    """Return accuracy, precision and recall by the name of the class.

    Empty where answers are not one class, or where some examples have no prediction.
    """
    classes, places = session.book.classes(), [found.places.get(key, -1) for key in sample.keys]
    if not session.type.has_one_class or not sample.labels or -1 in places:
        return {}
    numbers = list(classes.names)
    scores = np.zeros((len(places), len(numbers)))
    for column, old in enumerate(found.numbers):
        scores[:, numbers.index(classes.merged[int(old)])] += found.scores[places, column]
    labels = [numbers.index(as_class(answer)) for answer in sample.labels.values()]
    draws = AuditSample(np.arange(len(labels)), len(places))
    qualities = class_qualities(draws, labels, scores, alpha=alpha)
    return {classes.names[numbers[each.column]]: each for each in qualities}


def kappas(session: Session) -> tuple[float, ...]:
    """Return the kappa of each model with the one before."""
    found = [summary.get("kappa") for _, summary in model_rounds(session)]
    return tuple(float(value) for value in found if value is not None)


def is_blind(session: Session, key: str) -> bool:
    """Return whether a question is asked without the model's suggestion: all of the audit, and as many picks."""
    purpose, share = session.store.purpose(key), session.settings.audit
    hidden = 1.0 if proof_questions(session) or share > 0.5 else share / (1 - share)
    drawn = draw_uniform(session.settings.seed, "blind", key) < hidden
    return purpose == "audit" or (purpose == "pick" and drawn)


class HeldFigures:
    """Progress for the page, whose audit figures stay as they are until some answers have come in.

    Args:
        compute: Returns the progress as JSON.
    """

    def __init__(self, compute: Callable[[], dict[str, Any]]) -> None:
        self.compute = compute
        self._held: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        """Return the progress."""
        found, held = self.compute(), self._held
        moved = abs(found["answered"] - held.get("answered", -REVEAL_STEP)) >= REVEAL_STEP
        if moved or found["models"] != held["models"] or not found["left"]:
            self._held = found
        return {**found, **{name: self._held[name] for name in AUDIT_FIGURES}}
