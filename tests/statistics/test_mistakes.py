"""How likely an answer is a mistake: against the truth of simulated people, and against Bayes' rule."""

import numpy as np
import pytest

from jostle.statistics.agreement import EVEN, class_mistakes, number_mistakes, set_mistakes


def simulate(slips: float, n: int = 2000, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Probabilities of a calibrated model, answers, and which of them are slips."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(n, classes)) * 3
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = (chances.cumsum(1) > draw.random((n, 1))).argmax(1)
    wrong = draw.random(n) < slips
    answers = np.where(wrong, (truth + draw.integers(1, classes, n)) % classes, truth)
    return chances, answers, wrong


@pytest.mark.parametrize("slips", [0.03, 0.1])
def test_most_doubted_answers_are_slips_though_the_model_errs_far_more_often(slips: float) -> None:
    chances, answers, wrong = simulate(slips)
    contradicted = chances.argmax(1) != answers
    assert wrong[contradicted].mean() < 0.45, "contradiction alone is no reason"
    doubted = class_mistakes(chances, answers) >= EVEN
    assert doubted.sum() >= 10
    assert wrong[doubted].mean() > 0.5


def test_who_never_slips_is_hardly_doubted() -> None:
    chances, answers, _ = simulate(0.0)
    assert (class_mistakes(chances, answers) >= EVEN).mean() < 0.005


def test_chances_are_those_of_bayes_rule() -> None:
    chances, answers, wrong = simulate(0.1, n=20_000)
    found = class_mistakes(chances, answers)
    right = chances[np.arange(len(answers)), answers]
    slipped = (1 - right) / 3
    exact = 0.1 * slipped / (0.9 * right + 0.1 * slipped)
    np.testing.assert_allclose(found, exact, atol=0.1)
    for low, high in ((0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        inside = (found > low) & (found <= high)
        assert low - 0.1 < wrong[inside].mean() < high + 0.1


def test_numbers_far_off_are_doubted_and_noise_is_not() -> None:
    draw = np.random.default_rng(0)
    predicted = draw.uniform(0, 100, 400)
    answers = predicted + draw.laplace(0, 3, 400)
    answers[:8] = draw.uniform(0, 100, 8)
    doubted = number_mistakes(predicted, answers) >= EVEN
    assert doubted[:8].sum() >= 4
    assert doubted[8:].mean() < 0.02
    assert not number_mistakes(predicted, predicted).any()


def test_a_set_is_as_doubtful_as_its_most_doubtful_class() -> None:
    chances, answers, wrong = simulate(0.05)
    having = np.eye(4, dtype=bool)[answers]
    doubted = set_mistakes(chances, having) >= EVEN
    assert wrong[doubted].mean() > 0.5
    assert set_mistakes(np.zeros((3, 0)), np.zeros((3, 0), dtype=bool)).tolist() == [0, 0, 0]
