"""Label noise."""

from itertools import product

import numpy as np
import pytest

from jostle.statistics.agreement import answer_error_rate, posterior_classes, share_of_noise, value_of_answer


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_share_of_wrong_answers_by_enumeration(classes: int) -> None:
    wrong = 0.2
    chance = [1 - wrong] + [wrong / (classes - 1)] * (classes - 1)
    disagree = sum(a * b for (i, a), (j, b) in product(enumerate(chance), repeat=2) if i != j)
    assert answer_error_rate(disagree, classes) == pytest.approx(wrong)
    with pytest.raises(ValueError, match=r"two or more classes, got 0\.1 and 1"):
        answer_error_rate(0.1, 1)


def test_a_gap_is_parted_into_noise_and_error() -> None:
    wrong, own, classes = 0.1, 0.05, 4
    measured = wrong + own * (1 - wrong * classes / (classes - 1))
    disagree = 2 * wrong - wrong**2 * classes / (classes - 1)
    found = share_of_noise(measured, round(100_000 * disagree), 100_000, classes)
    assert found.answer_error == pytest.approx(wrong, abs=1e-4)
    assert found.model_error == pytest.approx(own, abs=1e-3)
    assert found.share == pytest.approx(1 - own / measured, abs=0.01)
    assert found.answer_error_interval.low < wrong < found.answer_error_interval.high
    assert share_of_noise(0.1, 0, 20, 3).share == 0
    assert share_of_noise(0.0, 3, 20, 3).share == 0
    with pytest.raises(ValueError, match="3 disagreements in 2 examples are impossible"):
        share_of_noise(0.1, 3, 2, 3)


def test_posterior_by_bayes_rule_in_hand() -> None:
    found = posterior_classes([[0.5, 0.3, 0.2]], [[1, -1, 1]], [0.2, 0.4, 0.1])
    joint = np.array([0.5 * 0.1 * 0.05, 0.3 * 0.8 * 0.9, 0.2 * 0.1 * 0.05])
    np.testing.assert_allclose(found[0], joint / joint.sum(), rtol=1e-9)


def test_an_answer_is_worth_most_where_it_changes_the_decision() -> None:
    posterior = np.array([[0.5, 0.5], [0.85, 0.15], [0.99, 0.01]])
    gain = value_of_answer(posterior, 0.2)
    assert gain[0] == pytest.approx(0.3)  # from a guess to 80 %
    assert gain[1] == pytest.approx(0, abs=1e-12)  # one answer cannot overrule 85 %
    assert gain[2] == pytest.approx(0, abs=1e-12)


def test_a_disputed_example_is_worth_more_than_a_settled_one_and_less_than_a_new_one() -> None:
    flat = np.full((3, 4), 0.25)
    votes = np.array([[-1, -1, -1], [0, 1, -1], [0, 0, -1]])
    new, disputed, settled = value_of_answer(posterior_classes(flat, votes, 0.2), 0.2)
    assert new > disputed > settled
