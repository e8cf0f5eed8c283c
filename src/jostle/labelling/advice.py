"""To go on or to stop: both stable predictions, and an audit above the goal or a curve that has flattened."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jostle.labelling import stability
from jostle.labelling.records import Accuracy, Advice, Point

HUNDRED = 100
RECENT = 5  # models of the curve that the next hundred answers are estimated from
FEWEST_MODELS = 4  # before a curve can be called flat
FEWEST_AUDITED = 30
FLAT = 0.005  # of accuracy
FLAT_SHARE = 0.01  # of a mean error


def gain(curve: Sequence[Point], smaller_is_better: bool) -> float | None:
    """What the next hundred answers would bring were the last models' curve, linear in log answers, to go on.

    An estimate from few noisy points, to be shown as one. None before there are three.
    """
    last = curve[-RECENT:]
    if len(last) < 3 or len({point.trained for point in last}) < 2:
        return None
    size = np.log([point.trained for point in last])
    slope = float(np.polyfit(size, [point.estimate for point in last], 1)[0])
    change = slope * math.log1p(HUNDRED / last[-1].trained)
    return -change if smaller_is_better else change


def is_flat(curve: Sequence[Point], accuracy: Accuracy, brings: float | None) -> bool:
    """Whether the next hundred answers are estimated to bring next to nothing."""
    if brings is None or len(curve) < FEWEST_MODELS or accuracy.audited < FEWEST_AUDITED:
        return False
    little = FLAT if accuracy.measure == "accuracy" else FLAT_SHARE * curve[-1].estimate
    return brings < little


def advise(accuracy: Accuracy, curve: Sequence[Point], kappas: Sequence[float], left: int) -> Advice:
    """The advice, and its reasons in words."""
    brings = gain(curve, accuracy.measure == "mean error")
    stable, flat = stability.is_stable(kappas), is_flat(curve, accuracy, brings)
    stop = left == 0 or (stable and (accuracy.reached or flat))
    reasons = (
        _stability(kappas, stable, accuracy.measure),
        _audit(accuracy),
        _outlook(brings, flat, accuracy),
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


def _stability(kappas: Sequence[float], stable: bool, measure: str) -> str:
    if len(kappas) < stability.WINDOW:
        return f"Whether predictions are stable shows after {stability.WINDOW + 1} models."
    mean = float(np.mean(kappas[-stability.WINDOW :]))
    word = "stable" if stable else "still changing"
    agree = f"Predictions are {word}: successive models agree with kappa {mean:.3f} (stable from {stability.STABLE})"
    bound = stability.change_bound(kappas) if measure == "accuracy" else None
    if bound is None:
        return f"{agree}."
    return f"{agree}; the F-measure of the last two can differ by at most {100 * bound:.1f} points."


def _audit(accuracy: Accuracy) -> str:
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


def _outlook(brings: float | None, flat: bool, accuracy: Accuracy) -> str:
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
    """As the page writes it."""
    return f"{100 * share:.{digits}f} %"
