"""Calibrated chances of being wrong."""

import numpy as np
import pytest
from scipy.special import softmax

from jostle.statistics.calibration import ErrorCalibration, calibrate_errors


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
    assert found.intercept == pytest.approx(0, abs=0.3)
    assert found.slope == pytest.approx(1, abs=0.3)


def test_without_a_fit_the_chance_is_one_minus_the_confidence() -> None:
    chances = ErrorCalibration().expected_errors([0.7, 0.8])
    np.testing.assert_allclose(chances, [0.3, 0.2])


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"must both be \(m,\), got \(2,\) and \(3,\)"):
        calibrate_errors([0.5, 0.5], [0, 1, 0])
