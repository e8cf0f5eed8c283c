"""Advice to go on or to stop: stable predictions, and an audit above the goal or a curve that is flat.

Predictions are stable if kappa between successive models is high on a fixed set of examples. Kappa above T bounds how
much the F-measure can differ between the two models, by 4 (1 - T) / T; it does not say how good they are (Bloodgood and
Vijay-Shanker 2009; Bloodgood and Grothendieck 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jostle.labeling.records import Accuracy, Advice, Point, Proof

STABLE_KAPPA = 0.99  # the mean of the last kappas at which predictions count as stable
KAPPA_WINDOW = 3  # how many of them
STOP_SET = 2000  # examples that successive models are compared on


def kappa(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return Cohen's kappa of two lists of classes; 1 where both have one and the same class throughout."""
    if len(first) != len(second) or not len(first):
        raise ValueError(f"kappa compares two lists of one length; got {len(first)} and {len(second)}")
    observed = float((first == second).mean())
    shares = [{c: float((labels == c).mean()) for c in np.unique(labels)} for labels in (first, second)]
    expected = sum(share * shares[1].get(c, 0.0) for c, share in shares[0].items())
    return 1.0 if expected >= 1 - 1e-12 else (observed - expected) / (1 - expected)


def kappa_of_sets(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the mean over classes of the kappa of having the class; both are (n, c)."""
    each = [kappa(a.astype(np.int64), b.astype(np.int64)) for a, b in zip(first.T, second.T, strict=True)]
    return float(np.mean(each))


def concordance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Lin's concordance of two lists of numbers, which is kappa weighted by squares; 1 where they are equal."""
    apart = float(((first - second) ** 2).mean())
    spread = float(first.var() + second.var() + (first.mean() - second.mean()) ** 2)
    return 1.0 if apart == 0 else 1 - apart / spread


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


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage, as the page writes it."""
    return f"{100 * share:.{digits}f} %"
