"""Advice to go on or to stop, and the kappa between successive models that it rests on."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from jostle.labeling.records import Accuracy, Point
from jostle.labeling.stopping import (
    advise,
    concordance,
    estimate_gain,
    is_stable,
    kappa,
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


def test_errors_of_numbers_have_to_fall() -> None:
    error = Accuracy("mean error", 12.0, 10.0, 14.0, 0.95, 100, 900, 6, 15.0, True, 300.0)
    falling = curve(30, 20, 16, 14, 12)
    given = advise(error, falling, STEADY, left=100)
    assert given.stop
    assert given.gain is not None
    assert given.gain > 0
    assert "at most 14" in given.reasons[1]


def test_kappa_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    assert kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))


def test_concordance_by_hand() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    assert concordance(first, second) == pytest.approx(1 - 1 / (2 / 3 + 2 / 3 + 1))
    assert concordance(first, first) == 1


def test_the_mean_of_the_last_three_decides() -> None:
    assert not is_stable([0.999, 0.999])
    assert is_stable([0.2, 0.98, 0.99, 1.0])
    assert not is_stable([1.0, 1.0, 1.0, 0.9])
