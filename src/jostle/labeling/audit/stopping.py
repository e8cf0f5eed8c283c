"""Results from answers: advice to go on or to stop, quality by class, confusions, label noise, and what picking saved.

Predictions are stable if kappa between successive models is high on a fixed set of examples. Kappa above T bounds how
much the F-measure can differ between the two models, by 4 (1 - T) / T; it does not say how good they are (Bloodgood and
Vijay-Shanker 2009; Bloodgood and Grothendieck 2013).

A search for all examples of one class stops by recall. All members of the class are one fixed number, so one confidence
sequence holds for the whole search. Its draws are the random questions of the audit, each among the examples that were
unanswered at that moment.

Confusions are those of answers that are not of the audit, so that no picture says which questions measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from jostle.labeling import audit
from jostle.labeling.answers import as_class, percent
from jostle.labeling.audit.queue import MIN_TWICE, count_disagreements
from jostle.labeling.records import (
    Accuracy,
    Advice,
    ClassFigures,
    Confusion,
    Noise,
    Point,
    Predictions,
    Proof,
    Recall,
    SavedLabels,
)
from jostle.labeling.sources.contents import Question
from jostle.labeling.store.schema import ANSWERED, events, examples
from jostle.statistics import ALPHA, RecallSequence, estimate_savings, share_of_noise

if TYPE_CHECKING:
    from jostle.labeling.session import Session


STABLE_KAPPA = 0.99  # the mean of the last kappas at which predictions count as stable
KAPPA_WINDOW = 3  # how many of them
STOP_SET = 2000  # examples that successive models are compared on
NEXT_ANSWERS = 100
CURVE_POINTS = 5  # models of the curve that the next hundred answers are estimated from
MIN_MODELS = 4  # before a curve can be called flat
MIN_AUDITED = 30
FLAT_ACCURACY = 0.005  # of accuracy
FLAT_ERROR_SHARE = 0.01  # of a mean error
FIND_AUDIT = 0.5  # share of random questions in a search, unless the project says otherwise
DEFAULT_GOAL = 0.95  # recall
MAX_CONFUSIONS = 4
MAX_PICTURES = 4  # of each confusion


def is_stable(kappas: Sequence[float]) -> bool:
    """Return whether the mean of the last three kappas is at least 0.99; False for fewer than three."""
    return len(kappas) >= KAPPA_WINDOW and float(np.mean(kappas[-KAPPA_WINDOW:])) >= STABLE_KAPPA - 1e-9


def change_bound(kappas: Sequence[float]) -> float | None:
    """Return the most by which the F-measure of the last two models can differ; None where kappa gives no bound."""
    if not kappas or kappas[-1] <= 0:
        return None
    return min(1.0, 4 * (1 - kappas[-1]) / kappas[-1])


def estimate_gain(curve: Sequence[Point], smaller_is_better: bool) -> float | None:
    """Return the gain of the next hundred answers, extrapolated linearly in log answers from the last models.

    It is an estimate from few noisy points. None before there are three.
    """
    last = curve[-CURVE_POINTS:]
    if len(last) < 3 or len({point.trained for point in last}) < 2:
        return None
    size = np.log([point.trained for point in last])
    slope = float(np.polyfit(size, [point.estimate for point in last], 1)[0])
    change = slope * math.log1p(NEXT_ANSWERS / last[-1].trained)
    return -change if smaller_is_better else change


def is_flat(curve: Sequence[Point], accuracy: Accuracy, brings: float | None) -> bool:
    """Return whether the next hundred answers are estimated to bring next to nothing."""
    if brings is None or len(curve) < MIN_MODELS or accuracy.audited < MIN_AUDITED:
        return False
    little = FLAT_ACCURACY if accuracy.measure == "accuracy" else FLAT_ERROR_SHARE * curve[-1].estimate
    return brings < little


def advise(
    accuracy: Accuracy, curve: Sequence[Point], kappas: Sequence[float], left: int, proof: Proof | None = None
) -> Advice:
    """Return the advice, with its reasons in words.

    A goal that is proven ends the work. Without a proof, stable predictions on a flat curve end it only if a proof is
    out of reach, and the headline says so.
    """
    brings = estimate_gain(curve, accuracy.measure == "mean error")
    stable, flat = is_stable(kappas), is_flat(curve, accuracy, brings)
    provable = proof is not None and (proof.questions is not None or proof.asking > 0)
    stop = left == 0 or accuracy.reached or (stable and flat and not provable)
    reasons = [_describe_audit(accuracy)]
    if proof is not None:
        reasons.append(_describe_proof(proof))
    if brings is not None:
        reasons.append(_describe_gain(brings, flat, accuracy))
    if len(kappas) < KAPPA_WINDOW:
        reasons.append(f"Whether predictions are stable shows after {KAPPA_WINDOW + 1} models.")
    else:
        changing = "Predictions are still changing."
        reasons.append("Predictions are stable from model to model." if stable else changing)
    if left == 0 and accuracy.estimate is None:
        reasons = ["People answered every example: none is left to measure a model on."]
    details = _describe_kappa(kappas, accuracy.measure)
    return Advice(
        stop, _headline(accuracy, proof, left, stop, stable and flat), tuple(reasons), brings, details
    )


def _headline(accuracy: Accuracy, proof: Proof | None, left: int, stop: bool, settled: bool) -> str:
    goal = "" if accuracy.goal is None else _level(accuracy, accuracy.goal)
    if left == 0:
        return "Everything is answered."
    if accuracy.reached and accuracy.measure == "mean error":
        most = _level(accuracy, accuracy.high)
        return f"The goal is proven: the mean error of what is left is at most {most}. Stop here."
    if accuracy.reached:
        least = _level(accuracy, accuracy.low)
        return f"The goal is proven: at least {least} of what is left is right. Stop here."
    if not accuracy.round:
        return "Go on: there is no model yet."
    if proof is not None and proof.asking:
        return f"Proving the goal: {count_words(proof.asking, 'random question')} come next."
    if stop and not goal:
        return "More answers bring little: stop here."
    if stop:
        return f"More answers bring little, and the goal of {goal} is not proven."
    return f"Predictions have settled, and the goal of {goal} is not proven yet." if settled else "Go on."


def _level(accuracy: Accuracy, value: float) -> str:
    """Return an accuracy, or a mean error, as it is written."""
    return f"{value:.4g}" if accuracy.measure == "mean error" else percent(value)


def count_words(n: int, one: str) -> str:
    """Return a number of things in words, such as `1 answer` and `2 answers`."""
    return f"{n:,} {one if n == 1 else one + 's'}"


def _describe_proof(proof: Proof) -> str:
    if proof.questions is None:
        return f"A proof of the goal for this model takes more than {proof.limit} random answers, or is impossible."
    answers = count_words(proof.questions, "more random answer")
    return f"A proof of the goal takes about {answers} (a forecast)."


def _describe_kappa(kappas: Sequence[float], measure: str) -> tuple[str, ...]:
    if len(kappas) < KAPPA_WINDOW:
        return ()
    mean = float(np.mean(kappas[-KAPPA_WINDOW:]))
    agree = f"Successive models agree with kappa {mean:.3f}; predictions count as stable from {STABLE_KAPPA}."
    bound = change_bound(kappas) if measure == "accuracy" else None
    if bound is not None:
        agree += f" The F-measure of the last two can differ by at most {100 * bound:.1f} points."
    return (agree,)


def _describe_audit(accuracy: Accuracy) -> str:
    if accuracy.estimate is None:
        return "Nothing has been audited yet, so nothing is known of the accuracy."
    bound = (
        f"The mean error is at most {_level(accuracy, accuracy.high)}"
        if accuracy.measure == "mean error"
        else f"At least {_level(accuracy, accuracy.low)} of predictions are right"
    )
    goal = "" if accuracy.goal is None else f"; the goal is {_level(accuracy, accuracy.goal)}"
    return f"{bound} with {percent(accuracy.confidence, 0)} confidence ({accuracy.audited} audited){goal}."


def _describe_gain(brings: float, flat: bool, accuracy: Accuracy) -> str:
    amount = (
        f"{round(100 * brings, 1) + 0.0:+.1f} points"  # never -0.0
        if accuracy.measure == "accuracy"
        else f"an error smaller by {brings:.3g}"
    )
    tail = ": the curve has flattened" if flat else ""
    source = "an estimate from the last models, not a promise"
    return f"The next hundred answers would bring about {amount}{tail} ({source})."


def class_chances(session: Session, found: Predictions) -> NDArray[np.float64]:
    """Return the chance of the wanted class, (n,), by place in the predictions."""
    classes = session.book.classes()
    assert session.settings.find is not None
    number = classes.number(session.settings.find)
    columns = [i for i, old in enumerate(found.numbers) if classes.merged[int(old)] == number]
    return np.asarray(found.scores[:, columns].sum(1), dtype=np.float64).clip(0, 1)


def is_dry(session: Session) -> bool:
    """Return whether the last picks of a model found no member, so that only random questions are left to ask."""
    if not (models := audit.model_rounds(session)):
        return False
    since = models[0][1]["act"]
    answers = [one for one in session.snapshot().answers if one.seq > since and one.act != "skip"]
    picks = sorted((one for one in answers if one.purpose == "pick"), key=lambda one: one.seq)
    enough, members = max(session.settings.batch // 2, 1), member_keys(session)
    return len(picks) >= enough and not any(one.key in members for one in picks[-enough:])


def member_keys(session: Session) -> set[str]:
    """Return the keys of the answered examples of the wanted class."""
    assert session.settings.find is not None
    number = session.book.classes().number(session.settings.find)
    labels = session.snapshot().labels
    return {key for key, value in labels.items() if number in session.type.class_numbers(value)}


def recall(session: Session) -> Recall | None:
    """Return a lower bound on the share of the class that was found; None where no class is searched for."""
    wanted = session.settings.find
    if wanted is None:
        return None
    goal = session.settings.goal or DEFAULT_GOAL
    labels, members = session.snapshot().labels, member_keys(session)
    asked = session.store.find_keys(examples.c.here, examples.c.purpose.is_distinct_from("copy"))
    left = {*asked, *labels}
    audited = set(session.store.find_keys(examples.c.purpose == "audit"))
    first = (
        select(events.c.key, func.min(events.c.seq)).where(events.c.act.in_(ANSWERED)).group_by(events.c.key)
    )
    times: dict[str, int] = dict(session.store.rows(first))
    models = [(summary["act"], number) for number, summary in audit.model_rounds(session)]
    sequence = RecallSequence(len(left), goal)
    chances, current = dict[str, float](), 0
    for key in sorted(labels, key=lambda key: times.get(key, 0)):
        number = max((n for act, n in models if act < times.get(key, 0)), default=0)
        if number != current:
            current, found = number, session.audit_predictions(number)
            chances = (
                {} if found is None else dict(zip(found.keys, class_chances(session, found), strict=True))
            )
        if key in audited:
            usual = float(np.mean(list(chances.values()))) if chances else 0.05
            order = list(left)
            values = np.array([chances.get(each, usual) for each in order])
            sequence.add_draw(values, order.index(key), key in members)
        else:
            sequence.add_answers(1, int(key in members))
        left.remove(key)
    bound = sequence.bound(ALPHA)
    proven = bound.recall if bound.found else 0.0
    return Recall(wanted, proven, bound.found, bound.missed, goal, proven >= goal)


def advise_search(found: Recall, left: int) -> Advice:
    """Return the advice of a search: stop when enough of the class is proven to be found."""
    known = f"{count_words(found.found, 'example')} of {found.name} found, at most {found.missed:,} missed."
    sure = f"At least {percent(found.low)} of them are found, with 95 % confidence; the goal is {percent(found.goal)}."
    if left == 0:
        return Advice(True, "Everything is answered.", (known,), None)
    headline = f"Go on: the goal of {percent(found.goal)} is not proven."
    if found.reached:
        headline = f"At least {percent(found.low)} of {found.name} are found. Stop here."
    return Advice(found.reached, headline, (known, sure), None)


def by_class(session: Session, sample: audit.ProjectAudit) -> tuple[ClassFigures, ...]:
    """Return precision and recall of the last model by class; bounds are None where there are too few answers."""
    found = session.predictions()
    if found is None:
        return ()
    labels = {key: value for key, value in sample.labels.items() if key in found.places}
    rest = [key for key in sample.rest if key in found.places]  # new files are unknown to the model
    figures = []
    for name, one in audit.by_class(session, found, audit.ProjectAudit(labels, rest)).items():
        precision, recall = (None if each is None else each.low for each in (one.precision, one.recall))
        figures.append(ClassFigures(name, one.answered, precision, recall))
    return tuple(figures)


def confusions(session: Session) -> tuple[Confusion, ...]:
    """Return the pairs of classes that the model confuses most, with examples; held-out predictions alone count."""
    found = session.predictions()
    if found is None or not found.out_of_sample or not session.type.has_one_class:
        return ()
    classes, labels, kind = session.book.classes(), session.snapshot().labels, session.source.kind
    pairs: dict[tuple[int, int], dict[str, Question]] = defaultdict(dict)
    for one in session.snapshot().answers:
        if one.purpose != "audit" and one.here and one.key in found.places and one.key in labels:
            true, said = as_class(labels[one.key]), as_class(found.answer(found.places[one.key], classes))
            if true != said:
                pairs[true, said][one.key] = Question(one.key, kind, one.name)
    most = sorted(pairs.items(), key=lambda pair: -len(pair[1]))[:MAX_CONFUSIONS]
    return tuple(
        Confusion(classes.names[true], classes.names[said], len(shown), tuple(shown.values())[:MAX_PICTURES])
        for (true, said), shown in most
    )


def noise(session: Session, error: float | None) -> Noise | None:
    """Return how much of a measured error is disagreement of people; None where few examples were answered twice."""
    if not session.type.has_one_class or error is None or len(session.classes()) < 2:
        return None
    differed, twice = count_disagreements(session)
    if twice < MIN_TWICE:
        return None
    found = share_of_noise(error, differed, twice, len(session.classes()))
    return Noise(found.answer_error, found.model_error, twice)


def savings(session: Session) -> SavedLabels | None:
    """Estimate the answers that picking saved so far; None before 60 audited answers."""
    shadows = [s["shadow"] for _, _, s in session.store.rounds() if s.get("shadow")]
    if not shadows:
        return None
    last, labels, classes = shadows[-1], audit.audit_sample(session).labels, session.book.classes()
    keys = [key for key in last["keys"] if key in labels]
    by_key = dict(zip(last["keys"], last["errors"], strict=True))
    errors, sizes = list[list[float]](), list[int]()
    for number, summary in audit.model_rounds(session):
        found = session.audit_predictions(number)
        if found is not None and all(key in found.places for key in keys):
            errors.append([float(found.answer(found.places[key], classes) != labels[key]) for key in keys])
            sizes.append(summary["trained"])
    if len(sizes) < 2 or not keys:
        return None
    shadow = [np.nan if by_key[key] is None else by_key[key] for key in keys]
    saved = estimate_savings(shadow, last["labels"], errors, sizes)
    seconds = [one.seconds for one in session.snapshot().answers if one.seconds is not None]
    if not sizes[0] < saved.picks < np.inf:  # the first model was better already, or none was as good
        return None
    low = saved.random_labels - saved.high
    return SavedLabels(
        saved.random_labels,
        saved.picks,
        low if np.isfinite(low) else None,
        saved.random_labels - saved.low,
        saved.saved * float(np.median(seconds)) / 60 if seconds else None,
    )
