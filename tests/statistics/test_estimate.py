"""Point estimates, and the error on new data."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from jostle.statistics.confidence import Interval, betting_interval
from jostle.statistics.estimate import (
    ErrorCalibration,
    calibrate_errors,
    estimate_mean,
    estimate_new_data_error,
    estimate_savings,
    new_data_interval,
    shadow_errors,
)


def test_the_control_variate_lowers_the_error_of_the_estimate_and_adds_no_bias() -> None:
    rng = np.random.default_rng(0)
    chances = rng.beta(0.1, 0.9, 800)
    z = (rng.random(800) < chances).astype(float)
    orders = [rng.permutation(800) for _ in range(400)]
    plain = np.array([z[order][:60].mean() for order in orders])
    controlled = np.array([estimate_mean(z[order][:60], chances[order]) for order in orders])
    shuffled = rng.permutation(chances)
    useless = np.array([estimate_mean(z[order][:60], shuffled[order]) for order in orders])
    assert abs(controlled.mean() - z.mean()) < 0.005
    assert controlled.std() < 0.8 * plain.std()
    assert useless.std() < 1.05 * plain.std()


def test_a_census_and_few_draws_are_plain_means() -> None:
    assert estimate_mean([1, 0, 0, 0], [0.5, 0.1, 0.2, 0.3]) == 0.25
    assert estimate_mean([1, 0], [0.9, 0.1, 0.1, 0.1]) == 0.5
    with pytest.raises(ValueError, match="at least one draw, got none"):
        estimate_mean([], [0.5])


def test_both_parts_of_the_pool_count() -> None:
    by_hand = (2 * np.sqrt(0.8) + 16 * 0.05) / 20  # five folds
    assert estimate_new_data_error([1, 0, 1, 0], 0.05, 16) == pytest.approx(by_hand)
    with pytest.raises(ValueError, match="at least one example, got none"):
        estimate_new_data_error([], 0.1, 0)


def test_the_interval_covers_new_data() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(60):
        hard = rng.beta(0.3, 1.7, 600)  # chances of an error in the world: mean 0.15
        z = (rng.random(600) < hard).astype(float)
        order = np.argsort(-hard + rng.normal(0, 0.1, 600))  # picks take the hard ones
        picked, rest = order[:150], rng.permutation(order[150:])
        inside = betting_interval(z[rest[:60]], hard[rest], alpha=0.1)
        bounds = new_data_interval(z[picked], inside, len(rest), alpha=0.2)
        missed += not bounds.low <= 0.15 <= bounds.high
    assert missed / 60 <= 0.2
    assert new_data_interval([], Interval(0.0, 1.0), 10) == Interval(0.0, 1.0)


def overconfident(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, 4) three times too sure of themselves, and labels drawn from the honest ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, 4))
    honest = softmax(logits, axis=1)
    labels = (honest.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
    return softmax(3 * logits, axis=1), labels


def test_the_mean_chance_is_the_share_of_errors() -> None:
    train, labels = overconfident(2000, 0)
    test, truth = overconfident(4000, 1)
    chances = calibrate_errors(train.max(1), train.argmax(1) != labels).expected_errors(test.max(1))
    wrong = test.argmax(axis=1) != truth
    assert chances.mean() == pytest.approx(wrong.mean(), abs=0.03)
    raw = 1 - test.max(axis=1)
    assert np.mean((chances - wrong) ** 2) < np.mean((raw - wrong) ** 2)


def test_few_answers_leave_the_model_as_it_is() -> None:
    found = calibrate_errors([0.9, 0.8], [0, 0])
    assert (found.intercept, found.slope) == pytest.approx((0, 1), abs=0.3)
    np.testing.assert_allclose(ErrorCalibration().expected_errors([0.7, 0.8]), [0.3, 0.2])
    with pytest.raises(ValueError, match=r"must both be \(m,\), got \(2,\) and \(3,\)"):
        calibrate_errors([0.5, 0.5], [0, 1, 0])


def nearest_center(
    rows: NDArray[np.float64], classes: NDArray[np.int64], others: NDArray[np.float64]
) -> NDArray[np.int64]:
    names = np.unique(classes)
    centers = np.array([rows[classes == name].mean(axis=0) for name in names])
    return names[((others[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)]


def test_shadow_models_learn_from_others_alone() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=80)
    rows = rng.normal(0, 1, (80, 6)) + 1.2 * labels[:, None]
    few, many = (shadow_errors(rows, labels, nearest_center, size, splits=20) for size in (4, 56))
    assert many.mean() < few.mean()
    noise = shadow_errors(rng.normal(0, 1, (80, 60)), labels, nearest_center, 56, splits=20)
    assert noise.mean() > 0.4  # a model that saw its test examples would know them
    with pytest.raises(ValueError, match="size must be between 1 and 79, got 80"):
        shadow_errors(rows, labels, nearest_center, 80)


def test_picks_are_read_off_the_curve_by_hand() -> None:
    # errors 0.4, 0.2, 0.1 after 20, 40, 60 picks; 100 random labels have 0.15: half way between 40 and 60
    curve = np.array([[1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0], [1] + [0] * 9], float)
    shadow = np.full(10, 0.15)
    found = estimate_savings(shadow, 100, curve, [20, 40, 60])
    assert found.picks == pytest.approx(50)
    assert found.saved == pytest.approx(50)
    assert found.low <= 50 <= found.high


def test_the_interval_covers_the_picks_of_the_whole_population() -> None:
    rng = np.random.default_rng(1)
    sizes = np.array([20, 40, 60, 80, 100])
    rates = np.array([0.4, 0.3, 0.22, 0.15, 0.1])
    missed = 0
    for _ in range(60):
        difficulty = rng.random(120)
        picked = (difficulty < rates[:, None]).astype(float)
        shadow = (difficulty + rng.normal(0, 0.05, 120) < 0.25).astype(float)
        found = estimate_savings(shadow, 90, picked, sizes, alpha=0.1)
        missed += not found.low <= 52.5 <= found.high  # 0.25 lies between 0.3 at 40 and 0.22 at 60
    assert missed / 60 <= 0.2
