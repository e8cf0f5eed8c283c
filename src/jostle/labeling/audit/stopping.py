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
from jostle.labeling.store.queries import ANSWERED
from jostle.labeling.store.schema import events, examples
from jostle.statistics import ALPHA, RecallSequence, estimate_savings, share_of_noise

if TYPE_CHECKING:
    from jostle.labeling.session import Session


STABLE_KAPPA = 0.99  # the mean of the last kappas at which predictions count as stable
KAPPA_WINDOW = 3  # how many of them
STOP_SET = 2000  # examples that successive models are compared on


def is_stable(kappas: Sequence[float]) -> bool:
    """Return whether the mean of the last three kappas is at least 0.99; False for fewer than three."""
    return len(kappas) >= KAPPA_WINDOW and float(np.mean(kappas[-KAPPA_WINDOW:])) >= STABLE_KAPPA - 1e-9


def change_bound(kappas: Sequence[float]) -> float | None:
    """Return the most by which the F-measure of the last two models can differ; None where kappa gives no bound."""
    if not kappas or kappas[-1] <= 0:
        return None
    return min(1.0, 4 * (1 - kappas[-1]) / kappas[-1])


NEXT_ANSWERS = 100
CURVE_POINTS = 5  # models of the curve that the next hundred answers are estimated from
MIN_MODELS = 4  # before a curve can be called flat
MIN_AUDITED = 30
FLAT_ACCURACY = 0.005  # of accuracy
FLAT_ERROR_SHARE = 0.01  # of a mean error


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
    reasons: tuple[str, ...] = (
        _describe_audit(accuracy),
        _describe_proof(proof),
        _describe_gain(brings, flat, accuracy),
        _describe_stability(kappas, stable),
    )
    if left == 0 and accuracy.estimate is None:
        reasons = ("People answered every example: none is left to measure a model on.",)
    details = (_describe_kappa(kappas, accuracy.measure),)
    headline = _headline(accuracy, proof, left, stop, stable and flat)
    return Advice(stop, headline, tuple(filter(None, reasons)), brings, tuple(filter(None, details)))


def _headline(accuracy: Accuracy, proof: Proof | None, left: int, stop: bool, settled: bool) -> str:
    if left == 0:
        return "Everything is answered."
    if accuracy.reached:
        return f"The goal is proven: {_describe_bound(accuracy)}. Stop here."
    if not accuracy.round:
        return "Go on: there is no model yet."
    if proof is not None and proof.asking:
        return f"Proving the goal: {count_words(proof.asking, 'random question')} come next."
    if stop:
        if accuracy.goal is None:
            return "More answers bring little: stop here."
        return f"More answers bring little, and the goal of {_goal_words(accuracy)} is not proven."
    if settled:
        return f"Predictions have settled, and the goal of {_goal_words(accuracy)} is not proven yet."
    return "Go on."


def _describe_proof(proof: Proof | None) -> str:
    if proof is None:
        return ""
    if proof.questions is None:
        return f"A proof of the goal for this model takes more than {proof.limit} random answers, or is impossible."
    return (
        f"A proof of the goal takes about {count_words(proof.questions, 'more random answer')} (a forecast)."
    )


def _describe_bound(accuracy: Accuracy) -> str:
    if accuracy.measure == "mean error":
        return f"the mean error of what is left is at most {accuracy.high:.4g}"
    return f"at least {percent(accuracy.low)} of what is left is right"


def _goal_words(accuracy: Accuracy) -> str:
    assert accuracy.goal is not None
    return f"{accuracy.goal:.4g}" if accuracy.measure == "mean error" else percent(accuracy.goal)


def count_words(n: int, one: str) -> str:
    """Return a number of things in words, such as `1 answer` and `2 answers`."""
    return f"{n:,} {one if n == 1 else one + 's'}"


def _describe_stability(kappas: Sequence[float], stable: bool) -> str:
    if len(kappas) < KAPPA_WINDOW:
        return f"Whether predictions are stable shows after {KAPPA_WINDOW + 1} models."
    return "Predictions are stable from model to model." if stable else "Predictions are still changing."


def _describe_kappa(kappas: Sequence[float], measure: str) -> str:
    if len(kappas) < KAPPA_WINDOW:
        return ""
    mean = float(np.mean(kappas[-KAPPA_WINDOW:]))
    agree = f"Successive models agree with kappa {mean:.3f}; predictions count as stable from {STABLE_KAPPA}."
    bound = change_bound(kappas) if measure == "accuracy" else None
    if bound is None:
        return agree
    return f"{agree} The F-measure of the last two can differ by at most {100 * bound:.1f} points."


def _describe_audit(accuracy: Accuracy) -> str:
    if accuracy.estimate is None:
        return "Nothing has been audited yet, so nothing is known of the accuracy."
    sure = f"with {percent(accuracy.confidence, 0)} confidence"
    if accuracy.measure == "mean error":
        bound = f"The mean error is at most {accuracy.high:.4g} {sure} ({accuracy.audited} audited)"
        goal = "" if accuracy.goal is None else f"; the goal is {accuracy.goal:.4g}"
    else:
        bound = (
            f"At least {percent(accuracy.low)} of predictions are right {sure} ({accuracy.audited} audited)"
        )
        goal = "" if accuracy.goal is None else f"; the goal is {percent(accuracy.goal)}"
    return f"{bound}{goal}."


def _describe_gain(brings: float | None, flat: bool, accuracy: Accuracy) -> str:
    if brings is None:
        return ""
    amount = (
        f"{round(100 * brings, 1) + 0.0:+.1f} points"  # never -0.0
        if accuracy.measure == "accuracy"
        else f"an error smaller by {brings:.3g}"
    )
    tail = ": the curve has flattened" if flat else ""
    source = "an estimate from the last models, not a promise"
    return f"The next hundred answers would bring about {amount}{tail} ({source})."


FIND_AUDIT = 0.5  # share of random questions in a search, unless the project says otherwise
DEFAULT_GOAL = 0.95  # recall


def class_chances(session: Session, found: Predictions) -> NDArray[np.float64]:
    """Return the chance of the wanted class, (n,), by place in the predictions."""
    classes = session.book.classes()
    assert session.settings.find is not None
    number = classes.number(session.settings.find)
    columns = [i for i, old in enumerate(found.numbers) if classes.merged[int(old)] == number]
    chances: NDArray[np.float64] = found.scores[:, columns].sum(1).astype(np.float64).clip(0, 1)
    return chances


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
    here = (
        set(session.store.find_keys(examples.c.here, examples.c.purpose.is_distinct_from("copy")))
        | labels.keys()
    )
    audited = set(session.store.find_keys(examples.c.purpose == "audit"))
    first = (
        select(events.c.key, func.min(events.c.seq)).where(events.c.act.in_(ANSWERED)).group_by(events.c.key)
    )
    times: dict[str, int] = dict(session.store.rows(first))
    models = [(summary["act"], number) for number, summary in audit.model_rounds(session)]
    sequence = RecallSequence(len(here), goal)
    left, chances, current = here, dict[str, float](), 0
    for key in sorted(labels, key=lambda key: times.get(key, 0)):
        number = max((n for act, n in models if act < times.get(key, 0)), default=0)
        if number != current:
            current, chances = number, _stored_chances(session, number)
        if key in audited:
            usual = float(np.mean(list(chances.values()))) if chances else 0.05
            order = list(left)
            values = np.array([chances.get(each, usual) for each in order])
            sequence.add_draw(values, order.index(key), key in members)
        else:
            sequence.add_answers(1, int(key in members))
        left = left - {key}
    bound = sequence.bound(ALPHA)
    proven = bound.recall if bound.found else 0.0
    return Recall(wanted, proven, bound.found, bound.missed, goal, proven >= goal)


def _stored_chances(session: Session, number: int) -> dict[str, float]:
    """Return the chances of the class that a round kept, by key."""
    found = session.audit_predictions(number)
    if found is None:
        return {}
    return dict(zip(found.keys, class_chances(session, found).tolist(), strict=True))


def advise_search(found: Recall, left: int) -> Advice:
    """Return the advice of a search: stop when enough of the class is proven to be found."""
    known = f"{count_words(found.found, 'example')} of {found.name} found, at most {found.missed:,} missed."
    sure = f"At least {percent(found.low)} of them are found, with 95 % confidence; the goal is {percent(found.goal)}."
    if left == 0:
        return Advice(True, "Everything is answered.", (known,), None)
    if found.reached:
        return Advice(
            True, f"At least {percent(found.low)} of {found.name} are found. Stop here.", (known, sure), None
        )
    return Advice(False, f"Go on: the goal of {percent(found.goal)} is not proven.", (known, sure), None)


MAX_CONFUSIONS = 4
MAX_PICTURES = 4  # of each confusion


def by_class(session: Session, sample: audit.ProjectAudit) -> tuple[ClassFigures, ...]:
    """Return precision and recall of the last model by class; bounds are None where there are too few answers."""
    found = session.predictions()
    if found is None:
        return ()
    labels = {key: value for key, value in sample.labels.items() if key in found.places}
    rest = tuple(key for key in [*sample.waiting, *sample.unasked] if key in found.places)
    known = audit.ProjectAudit(labels, (), rest)  # new files are unknown to the model
    return tuple(
        ClassFigures(
            name,
            each.answered,
            None if each.precision is None else each.precision.low,
            None if each.recall is None else each.recall.low,
        )
        for name, each in audit.by_class(session, found, known).items()
    )


def confusions(session: Session) -> tuple[Confusion, ...]:
    """Return the pairs of classes that the model confuses most, with examples; held-out predictions alone count."""
    found = session.predictions()
    if found is None or not found.out_of_sample or not session.type.has_one_class:
        return ()
    classes, pairs = session.book.classes(), defaultdict[tuple[int, int], list[tuple[str, str]]](list)
    labels = session.snapshot().labels
    for one in session.snapshot().answers:
        if one.purpose != "audit" and one.here and one.key in found.places and one.key in labels:
            true, said = as_class(labels[one.key]), as_class(found.answer(found.places[one.key], classes))
            if true != said and (one.key, one.name) not in pairs[true, said]:
                pairs[true, said].append((one.key, one.name))
    most = sorted((pair for pair in pairs if pairs[pair]), key=lambda pair: -len(pairs[pair]))
    return tuple(
        Confusion(
            classes.names[true],
            classes.names[said],
            len(pairs[true, said]),
            tuple(Question(key, session.source.kind, name) for key, name in pairs[true, said][:MAX_PICTURES]),
        )
        for true, said in most[:MAX_CONFUSIONS]
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
