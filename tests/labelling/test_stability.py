"""Kappa between successive models, the degenerate cases that others got wrong included."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from jostle.labelling.stability import change_bound, concordance, is_stable, kappa, kappa_of_sets


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
