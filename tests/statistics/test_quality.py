"""Accuracy, precision and recall by class."""

import numpy as np
import pytest

from jostle.statistics.confidence import AuditSample
from jostle.statistics.quality import class_qualities, difference_interval


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
        assert quality.predicted == mine.sum()
        assert quality.answered == true.sum()
        assert quality.precision is not None
        assert quality.recall is not None
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
            truths = (
                (mine == true).mean(),
                (mine & true).sum() / mine.sum(),
                (mine & true).sum() / true.sum(),
            )
            for place, (interval, truth) in enumerate(
                zip((quality.accuracy, quality.precision, quality.recall), truths, strict=True)
            ):
                assert interval is not None
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
    assert found[0].recall is not None
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
