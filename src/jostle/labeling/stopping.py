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

from jostle.labeling.records import Accuracy, Advice, Point

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


def advise(accuracy: Accuracy, curve: Sequence[Point], kappas: Sequence[float], left: int) -> Advice:
    """Return the advice, with its reasons in words."""
    brings = estimate_gain(curve, accuracy.measure == "mean error")
    stable, flat = is_stable(kappas), is_flat(curve, accuracy, brings)
    stop = left == 0 or (stable and (accuracy.reached or flat))
    reasons = (
        _describe_stability(kappas, stable, accuracy.measure),
        _describe_audit(accuracy),
        _describe_gain(brings, flat, accuracy),
    )
    if left == 0:
        headline = "Everything is answered."
    elif stop:
        headline = "It is enough: stop here." if accuracy.reached else "More answers bring little: stop here."
    elif not accuracy.round:
        headline = "Go on: there is no model yet."
    else:
        headline = "Go on."
    return Advice(stop, headline, tuple(reason for reason in reasons if reason), brings)


def _describe_stability(kappas: Sequence[float], stable: bool, measure: str) -> str:
    if len(kappas) < KAPPA_WINDOW:
        return f"Whether predictions are stable shows after {KAPPA_WINDOW + 1} models."
    mean = float(np.mean(kappas[-KAPPA_WINDOW:]))
    word = "stable" if stable else "still changing"
    agree = (
        f"Predictions are {word}: successive models agree with kappa {mean:.3f} (stable from {STABLE_KAPPA})"
    )
    bound = change_bound(kappas) if measure == "accuracy" else None
    if bound is None:
        return f"{agree}."
    return f"{agree}; the F-measure of the last two can differ by at most {100 * bound:.1f} points."


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
