"""Accuracy, precision and recall by class, the difference of two models, the recall of a search."""

import numpy as np
import pytest

from jostle.statistics.confidence import AuditSample
from jostle.statistics.quality import RecallSequence, class_qualities, difference_interval


def population(seed: int, n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, 3) and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (n, 3))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    return chances, labels


def test_a_census_gives_the_figures_themselves() -> None:
    chances, labels = population(0, 120)
    found = class_qualities(AuditSample(np.arange(120), 120), labels, chances, min_answers=1)
    said = chances.argmax(axis=1)
    for quality in found:
        mine, true = said == quality.column, labels == quality.column
        assert (quality.predicted, quality.answered) == (mine.sum(), true.sum())
        assert quality.accuracy.low == pytest.approx((mine == true).mean())
        assert quality.precision.high == pytest.approx((mine & true).sum() / mine.sum())
        assert quality.recall.low == pytest.approx((mine & true).sum() / true.sum())
        assert quality.recall.width == pytest.approx(0, abs=1e-9)


def test_intervals_cover_and_say_something() -> None:
    missed, widths = np.zeros(3), []
    for seed in range(25):
        chances, labels = population(seed)
        draws = np.random.default_rng(seed + 500).permutation(900)[:200]
        said = chances.argmax(axis=1)
        for quality in class_qualities(AuditSample(draws, 900), labels[draws], chances, alpha=0.2):
            mine, true = said == quality.column, labels == quality.column
            hits = (mine & true).sum()
            truths = (mine == true).mean(), hits / mine.sum(), hits / true.sum()
            bounds = quality.accuracy, quality.precision, quality.recall
            for place, (interval, truth) in enumerate(zip(bounds, truths, strict=True)):
                missed[place] += not interval.low - 1e-9 <= truth <= interval.high + 1e-9
                widths.append(interval.width)
    assert (missed / 75 <= 0.2).all()
    assert np.mean(widths) < 0.25


def test_few_answers_have_no_interval() -> None:
    chances, labels = population(1)
    found = class_qualities(AuditSample(np.arange(12), 900), labels[:12], chances)
    assert all(quality.precision is None and quality.recall is None for quality in found)
    with pytest.raises(ValueError, match=r"got shapes \(11,\) and \(900, 3\)"):
        class_qualities(AuditSample(np.arange(12), 900), labels[:11], chances)


def test_a_class_that_is_never_predicted_has_no_precision() -> None:
    chances = np.tile([0.9, 0.1, 0.0], (50, 1))
    found = class_qualities(AuditSample(np.arange(50), 50), np.zeros(50), chances, min_answers=1)
    assert found[1].precision is None
    assert found[0].recall.low == 1


def two_models(seed: int, n: int = 600) -> tuple[np.ndarray, ...]:
    """Errors (n,) of two models, their chances, and where the predictions differ."""
    rng = np.random.default_rng(seed)
    first_chances, second_chances = rng.beta(0.4, 2, n), rng.beta(0.2, 2, n)
    differs = rng.random(n) < 0.25
    first = (rng.random(n) < first_chances).astype(float)
    second = np.where(differs, (rng.random(n) < second_chances) & (first == 0) | (rng.random(n) < 0.1), first)
    return first, second.astype(float), first_chances, second_chances, differs


def test_all_looks_cover_the_difference() -> None:
    missed = 0
    for seed in range(60):
        first, second, e1, e2, differs = two_models(seed)
        draws = np.random.default_rng(1000 + seed).permutation(600)[:120]
        last = difference_interval(
            AuditSample(draws, 600), first[draws], second[draws], e1, e2, differs, alpha=0.2
        )
        missed += not last.low <= (first - second).mean() <= last.high
    assert missed / 60 <= 0.2


def test_far_narrower_than_two_intervals_where_the_models_mostly_agree() -> None:
    first, second, e1, e2, differs = two_models(3)
    draws = np.random.default_rng(0).permutation(600)[:200]
    sample = AuditSample(draws, 600)
    together = difference_interval(sample, first[draws], second[draws], e1, e2, differs)
    everywhere = difference_interval(sample, first[draws], second[draws], e1, e2)
    apart = (
        sample.interval(first[draws], e1, alpha=0.025).width
        + sample.interval(second[draws], e2, alpha=0.025).width
    )
    assert together.width < 0.6 * apart
    assert together.width < everywhere.width


def test_everything_drawn_gives_the_difference_itself() -> None:
    first, second = np.array([1.0, 0, 1, 0]), np.array([0.0, 0, 1, 1])
    sample = AuditSample(np.arange(4), 4)
    found = difference_interval(sample, first, second, np.zeros(4), np.zeros(4), first != second)
    assert (found.low, found.high) == pytest.approx((0.0, 0.0))


def steered_search(seed: int, examples: int = 300) -> bool:
    """Whether the bound exceeds the recall of a search that random draws and picks steer together."""
    rng = np.random.default_rng(seed)
    place = rng.random(examples)
    member = rng.random(examples) < 0.3 * (place > 0.7)
    left, sequence, guess = list(range(examples)), RecallSequence(examples), np.full(examples, 0.1)
    for step in range(120):
        if step % 2:
            drawn = int(rng.integers(len(left)))
            sequence.add_draw(guess[left], drawn, bool(member[left[drawn]]))
            near = np.abs(place - place[left[drawn]]) < 0.05
            guess[near] = 0.5 * guess[near] + 0.5 * member[left[drawn]]  # draws train the model
        else:
            drawn = int(np.argmax(guess[left]))
            sequence.add_answers(1, int(member[left[drawn]]))
        del left[drawn]
    return (
        sequence.bound(0.2).recall > sequence.found / max(member.sum(), 1) + 1e-9
    )  # holds all earlier looks


def test_one_sequence_holds_for_a_whole_search_although_draws_steer_it() -> None:
    assert np.mean([steered_search(seed) for seed in range(40)]) <= 0.2


def test_a_search_that_finds_everything_can_stop_early() -> None:
    chances = np.where(np.arange(400) < 40, 0.9, 0.002)
    sequence = RecallSequence(400)
    sequence.add_answers(40, 40)  # all members are found at once
    left = chances[40:]
    while sequence.bound().recall < 0.95:
        sequence.add_draw(left, 0, False)
        left = left[1:]
    # (1 - n / N)^3 < 0.05, which no rule without assumptions can beat, needs 227 draws for 3 missed members
    assert 227 <= 360 - len(left) < 300


def test_the_ends_of_a_search() -> None:
    sequence = RecallSequence(5)
    assert (sequence.bound().recall, sequence.bound().missed) == (0.0, 5)
    sequence.add_answers(4, 2)
    assert sequence.bound().recall == pytest.approx(2 / 3)
    sequence.add_draw([0.5], 0, True)
    assert (sequence.bound().recall, sequence.bound().found) == (1.0, 3)
    with pytest.raises(ValueError, match="1 members in 1 answers are impossible with 0 left"):
        sequence.add_answers(1, 1)
    with pytest.raises(ValueError, match="pass chances of 0 examples, got 1"):
        sequence.add_draw([0.5], 0, True)
