"""The estimate of what picking saved."""

import numpy as np
import pytest
from numpy.typing import NDArray

from jostle.statistics.estimate import estimate_savings, shadow_errors


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
    assert found.share == pytest.approx(0.5)
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
