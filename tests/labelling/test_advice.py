"""To go on or to stop: both conditions, and no promise."""

from dataclasses import replace

import pytest

from jostle.labelling.advice import advise, gain
from jostle.labelling.records import Accuracy, Point

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
    assert gain(points, smaller_is_better=False) == pytest.approx(0.1 * 0.32193, rel=1e-4)
    assert gain(points, smaller_is_better=True) == pytest.approx(-0.1 * 0.32193, rel=1e-4)
    assert gain(points[:2], smaller_is_better=False) is None
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
