"""Advice to go on or to stop, and the kappa between successive models that it rests on."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from jostle.labeling.records import Accuracy, Point
from jostle.labeling.stopping import (
    advise,
    change_bound,
    concordance,
    estimate_gain,
    is_stable,
    kappa,
    kappa_of_sets,
)

GOOD = Accuracy("accuracy", 0.97, 0.955, 0.985, 0.95, 200, 5000, 8, 0.95, True)
STEADY = [0.9, 0.992, 0.995, 0.996]


def curve(*estimates: float, step: int = 100) -> list[Point]:
    return [Point(i + 1, (i + 1) * step, value, 0.0, 1.0, None) for i, value in enumerate(estimates)]


FLAT = curve(0.9, 0.95, 0.968, 0.969, 0.97, 0.97, 0.97, 0.97)
RISING = curve(0.5, 0.6, 0.7, 0.8, 0.9)


def test_a_goal_that_is_reached_is_not_enough_while_predictions_change() -> None:
    assert advise(GOOD, FLAT, STEADY, left=1000).stop
    unsteady = advise(GOOD, FLAT, [0.9, 0.9, 0.9], left=1000)
    assert not unsteady.stop
    assert "still changing" in unsteady.reasons[0]


def test_stable_predictions_are_not_enough_below_the_goal_on_a_rising_curve() -> None:
    below = replace(GOOD, low=0.9, reached=False)
    assert not advise(below, RISING, STEADY, left=1000).stop


def test_a_flat_curve_does_where_the_goal_is_out_of_reach() -> None:
    below = replace(GOOD, low=0.9, reached=False, goal=0.99)
    given = advise(below, FLAT, STEADY, left=1000)
    assert given.stop
    assert given.headline == "More answers bring little: stop here."
    assert not advise(replace(below, audited=10), FLAT, STEADY, left=1000).stop  # too few to say so


def test_nothing_left_is_the_end() -> None:
    assert advise(replace(GOOD, reached=False), RISING, [], left=0).stop


def test_before_the_first_model() -> None:
    nothing = Accuracy("accuracy", None, 0.0, 1.0, 0.95, 0, 0, 0, None, False)
    given = advise(nothing, [], [], left=10)
    assert (given.stop, given.gain) == (False, None)
    assert "no model yet" in given.headline


def test_what_the_next_hundred_bring() -> None:
    # linear in log answers: 0.1 for each doubling, so from 400 to 500 it is 0.1 * log2(1.25)
    points = [
        Point(i, trained, value, 0, 1, None)
        for i, (trained, value) in enumerate([(100, 0.6), (200, 0.7), (400, 0.8)])
    ]
    assert estimate_gain(points, smaller_is_better=False) == pytest.approx(0.1 * 0.32193, rel=1e-4)
    assert estimate_gain(points, smaller_is_better=True) == pytest.approx(-0.1 * 0.32193, rel=1e-4)
    assert estimate_gain(points[:2], smaller_is_better=False) is None
    assert "not a promise" in advise(GOOD, points, STEADY, 10).reasons[-1]


def test_figures_are_written_as_on_the_page() -> None:
    falling_a_little = curve(0.97, 0.97, 0.97, 0.97, 0.9699)
    reasons = advise(GOOD, falling_a_little, STEADY, 10).reasons
    assert (
        "kappa 0.994 (stable from 0.99); the F-measure of the last two can differ by at most 1.6"
        in reasons[0]
    )
    assert "At least 95.5 % of predictions are right with 95 % confidence" in reasons[1]
    assert "about +0.0 points" in reasons[2]


def test_errors_of_numbers_have_to_fall() -> None:
    error = Accuracy("mean error", 12.0, 10.0, 14.0, 0.95, 100, 900, 6, 15.0, True, 300.0)
    falling = curve(30, 20, 16, 14, 12)
    given = advise(error, falling, STEADY, left=100)
    assert given.stop
    assert given.gain is not None
    assert given.gain > 0
    assert "at most 14" in given.reasons[1]


def labels(*values: int) -> np.ndarray:
    return np.array(values)


def test_kappa_by_hand() -> None:
    # agree on 3 of 4; chance 1/2 * 3/4 + 1/2 * 1/4 = 1/2
    assert kappa(labels(0, 0, 1, 1), labels(0, 0, 0, 1)) == pytest.approx((3 / 4 - 1 / 2) / (1 - 1 / 2))


def test_kappa_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    assert kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))


def test_one_class_throughout() -> None:
    assert kappa(labels(1, 1, 1), labels(1, 1, 1)) == 1
    assert kappa(labels(1, 1, 1), labels(0, 0, 0)) == 0
    with pytest.raises(ValueError, match="one length"):
        kappa(labels(), labels())


def test_sets_without_any_positive_agree() -> None:
    nothing = np.zeros((5, 2), dtype=bool)
    assert kappa_of_sets(nothing, nothing) == 1
    one = nothing.copy()
    one[0, 0] = True
    assert kappa_of_sets(nothing, one) == pytest.approx((0 + 1) / 2)


def test_concordance_by_hand() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    assert concordance(first, second) == pytest.approx(1 - 1 / (2 / 3 + 2 / 3 + 1))
    assert concordance(first, first) == 1


def test_the_mean_of_the_last_three_decides() -> None:
    assert not is_stable([0.999, 0.999])
    assert is_stable([0.2, 0.98, 0.99, 1.0])
    assert not is_stable([1.0, 1.0, 1.0, 0.9])


def test_what_can_still_change() -> None:
    assert change_bound([]) is None
    assert change_bound([-0.1]) is None
    assert change_bound([0.5, 0.98]) == pytest.approx(4 * 0.02 / 0.98)
    assert change_bound([0.5]) == 1
