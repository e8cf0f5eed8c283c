"""Agreement, consensus, label noise and mistakes: published figures, Bayes' rule, and independent loops."""

import math
import random
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from jostle.statistics.agreement import (
    EVEN,
    PRIOR_RIGHT,
    PRIOR_WRONG,
    answer_error_rate,
    class_mistakes,
    consensus,
    dawid_skene,
    jaccard_distance,
    krippendorff_alpha,
    number_mistakes,
    posterior_classes,
    set_mistakes,
    share_of_noise,
    squared_distance,
    value_of_answer,
)

KRIPPENDORFF = [  # three coders on fifteen units, 0 is missing (Krippendorff, Computing alpha-reliability, 2011)
    (0, 0, 0, 0, 0, 3, 4, 1, 2, 1, 1, 3, 3, 0, 3),
    (1, 0, 2, 1, 3, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 2, 1, 3, 4, 4, 0, 2, 1, 1, 3, 3, 0, 4),
]


def test_published_figures() -> None:
    units = [[value for value in unit if value] for unit in zip(*KRIPPENDORFF, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.691, abs=5e-4)
    assert krippendorff_alpha(
        [[float(v) for v in unit] for unit in units], squared_distance
    ) == pytest.approx(0.811, abs=5e-4)


def test_sets_that_overlap_agree_in_part() -> None:
    half = [[frozenset({1, 2}), frozenset({1})], [frozenset({3}), frozenset({3})]]
    none = [[frozenset({1}), frozenset({2})], [frozenset({3}), frozenset({3})]]
    assert krippendorff_alpha(none, jaccard_distance) < krippendorff_alpha(half, jaccard_distance) < 1  # type: ignore[operator]
    assert jaccard_distance(frozenset(), frozenset()) == 0


def in_loops(votes: Mapping[str, Mapping[str, int]], classes: int) -> dict[str, list[float]]:
    """Dawid and Skene's expectation-maximization with plain loops."""
    people = sorted({person for by in votes.values() for person in by})
    belief = {
        k: [sum(v == c for v in by.values()) / len(by) for c in range(classes)] for k, by in votes.items()
    }
    for _ in range(50):
        confusion = {}
        for person in people:
            for true in range(classes):
                counts = [PRIOR_RIGHT if true == said else PRIOR_WRONG for said in range(classes)]
                for key, by in votes.items():
                    if person in by:
                        counts[by[person]] += belief[key][true]
                for said in range(classes):
                    confusion[person, true, said] = counts[said] / sum(counts)
        prior = [(sum(b[c] for b in belief.values()) + 1) / (len(votes) + classes) for c in range(classes)]
        for key, by in votes.items():
            odds = [prior[c] * math.prod(confusion[p, c, v] for p, v in by.items()) for c in range(classes)]
            belief[key] = [odd / sum(odds) for odd in odds]
    return belief


def crowd(
    seed: int, skills: Mapping[str, float], n: int = 60
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """True classes, and what people of these skills say."""
    draw = random.Random(seed)
    truth = {str(i): draw.randrange(2) for i in range(n)}
    votes = {k: {p: t if draw.random() < s else 1 - t for p, s in skills.items()} for k, t in truth.items()}
    return truth, votes


def test_it_is_dawid_and_skenes() -> None:
    _, votes = crowd(0, {"a": 0.9, "b": 0.7, "c": 0.55})
    del votes["3"]["b"]
    found, expected = dawid_skene(votes, 2), in_loops(votes, 2)
    for key in votes:
        assert found[key] == pytest.approx(expected[key], abs=1e-4)


def test_one_who_knows_outweighs_two_who_do_not() -> None:
    truth, votes = crowd(1, {"expert": 0.97, "b": 0.55, "c": 0.55, "d": 0.9}, n=300)
    found = consensus(votes, 2)
    right = sum(found[key] == true for key, true in truth.items())
    majority = sum((sum(votes[key].values()) + votes[key]["b"] > 2.5) == true for key, true in truth.items())
    assert right > majority + 15  # of 300


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
    assert share_of_noise(0.1, 0, 20, 3).model_error == 0.1
    assert share_of_noise(0.0, 3, 20, 3).model_error == 0
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
